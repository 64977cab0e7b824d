//! What a protocol costs: bytes by phase, and seconds on a simulated network.

/// Bytes of a public key.
pub(super) const KEY: usize = 32;
/// Bytes of a share of a key or seed.
pub(super) const SHARE: usize = 32;
/// Bytes by which encrypting a message makes it longer.
pub(super) const TAG: usize = 16;

/// The costs of one or more rounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cost {
    /// Bytes from all clients to the server: keys and shares, masked updates, recovery of masks.
    pub up: [f64; 3],
    /// Bytes from the server to all clients.
    pub down: f64,
    /// Simulated seconds.
    pub seconds: f64,
    /// Clients that fell out.
    pub dropped: f64,
    bandwidth: f64,
    latency: f64,
}

impl Cost {
    pub fn new(bandwidth: f64, latency: f64) -> Self {
        Self { up: [0.0; 3], down: 0.0, seconds: 0.0, dropped: 0.0, bandwidth, latency }
    }
    /// Books a message of each of `clients` and its answer: bytes of all together. Clients send at once, each at its own bandwidth.
    pub fn phase(&mut self, phase: usize, clients: usize, up: usize, down: usize) {
        self.up[phase] += up as f64;
        self.down += down as f64;
        self.seconds += self.latency + (up + down) as f64 / clients.max(1) as f64 / self.bandwidth;
    }
    pub fn numbers(&self) -> [f64; 6] {
        [self.up[0], self.up[1], self.up[2], self.down, self.seconds, self.dropped]
    }
}

/// The names of [`Cost::numbers`] among the figures of an evaluation.
pub(super) const NAMES: [&str; 6] =
    ["secure_bytes_setup", "secure_bytes_masked", "secure_bytes_recovery", "secure_bytes_down", "secure_seconds", "secure_dropped"];
