//! The typed options of a simulation. The reference's conventions are options too, with its choice as the default.

use crate::base::{Fault, Outcome};
use crate::engine::Precision;
use crate::engine::update::{Correction, Optimiser, Rule};
use serde::Deserialize;

/// Everything that a simulation can be told, besides the algorithm with its hyper-parameters.
///
/// What is left out has the value of [`Settings::default`], which is the default of the `train` stage too.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Rounds, at least 1.
    pub rounds: u64,
    /// Local epochs E.
    pub local_epochs: u64,
    /// Batch size B.
    pub batch_size: usize,
    /// Local learning rate.
    pub learning_rate: f64,
    /// Factor by which a client's learning rate falls with each of its own participations; absent: no decay.
    pub learning_rate_decay: Option<f64>,
    /// Fraction of the clients in a round; the count is truncated.
    pub join_ratio: f64,
    /// Whether the count of a round is drawn between that of the join ratio and all.
    pub random_join_ratio: bool,
    /// Fraction of a round's clients whose upload is lost.
    pub drop_rate: f64,
    /// How the number of uploads that arrive is made whole.
    pub drop_count: Rounding,
    /// Fraction of clients that train slowly.
    pub slow_trainers: f64,
    /// Fraction of clients that send slowly.
    pub slow_senders: f64,
    /// How the slow clients are drawn.
    pub slow_drawing: Drawing,
    /// Uploads of clients whose mean simulated seconds of training and sending exceed this are refused; absent: none.
    pub time_threshold: Option<f64>,
    /// Simulated seconds that a batch takes.
    pub seconds_per_batch: f64,
    /// Simulated seconds that an upload takes; twice that for a slow sender.
    pub seconds_per_upload: f64,
    /// Training samples of each label that a client keeps; 0: all.
    pub few_shot: usize,
    /// Fraction of a client's training samples on which it does not train, but on which its model is validated; 0: none.
    pub validation_ratio: f64,
    /// The last clients of the partition that only join after the last round.
    pub new_clients: usize,
    /// Epochs of fine-tuning that a new client does before it is tested.
    pub fine_tuning_epochs: u64,
    /// Evaluate every so many rounds, and after the last.
    pub eval_every: u64,
    /// How the training loss is measured.
    pub train_loss: TrainLoss,
    /// Whether an incomplete last batch of a training pass is dropped.
    pub drop_last: bool,
    /// The local optimiser.
    pub optimizer: Optimizer,
    /// Of what the products of the model's convolutions and dense layers are made.
    pub precision: Precision,
    /// Seed of batch orders, labels and noise.
    pub batch_seed: u64,
    /// Seed of cohorts, drops and slow clients.
    pub sampling_seed: u64,
}

impl Default for Settings {
    /// PFLlib's defaults, for one round.
    fn default() -> Self {
        Self {
            rounds: 1,
            local_epochs: 1,
            batch_size: 10,
            learning_rate: 0.005,
            learning_rate_decay: None,
            join_ratio: 1.0,
            random_join_ratio: false,
            drop_rate: 0.0,
            drop_count: Rounding::Truncate,
            slow_trainers: 0.0,
            slow_senders: 0.0,
            slow_drawing: Drawing::WithReplacement,
            time_threshold: None,
            seconds_per_batch: 0.01,
            seconds_per_upload: 0.1,
            few_shot: 0,
            validation_ratio: 0.0,
            new_clients: 0,
            fine_tuning_epochs: 0,
            eval_every: 1,
            train_loss: TrainLoss::Running,
            drop_last: true,
            optimizer: Optimizer::Sgd { momentum: 0.0, weight_decay: 0.0 },
            precision: Precision::F32,
            batch_seed: 0,
            sampling_seed: 0,
        }
    }
}

/// The local optimizer as a pipeline names it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "name", deny_unknown_fields)]
pub enum Optimizer {
    /// Gradient descent.
    Sgd {
        /// Momentum, without dampening.
        momentum: f64,
        /// Weight of the penalty (weight_decay/2)||w||^2.
        weight_decay: f64,
    },
    /// Adam.
    Adam {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the denominator.
        epsilon: f64,
        /// Weight of the penalty (weight_decay/2)||w||^2.
        weight_decay: f64,
    },
}

impl Optimizer {
    /// The optimizer without state.
    #[must_use]
    pub fn start(self) -> Optimiser<f32> {
        Optimiser::new(match self {
            Self::Sgd { momentum: 0.0, .. } => Rule::Sgd,
            Self::Sgd { momentum, .. } => Rule::Momentum { momentum, nesterov: false },
            Self::Adam { beta1, beta2, epsilon, .. } => Rule::Adam { beta1, beta2, eps: epsilon },
        })
    }
    /// The penalty's term of the gradient, where there is one.
    #[must_use]
    pub fn decay<'a>(self) -> Option<Correction<'a, f32>> {
        let (Self::Sgd { weight_decay, .. } | Self::Adam { weight_decay, .. }) = self;
        (weight_decay > 0.0).then_some(Correction::Decay(weight_decay as f32))
    }
}

/// How a fractional count is made whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// Toward zero, in f64, as PFLlib does: 10 clients at drop rate 0.9 leave none.
    Truncate,
    /// To the nearest, and at least 1.
    Round,
}

/// How clients are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawing {
    /// With replacement, as PFLlib does: there may be fewer than asked for.
    WithReplacement,
    /// Without replacement: exactly as many as asked for.
    Exact,
}

/// How the training loss is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainLoss {
    /// The mean of the losses met while training in the last round; costs nothing.
    Running,
    /// A pass over all clients' training sets in evaluation mode, as PFLlib does.
    Full,
    /// Not at all.
    Off,
}

impl Settings {
    /// The clients that train of the `clients` of a partition.
    ///
    /// # Errors
    /// A stage fault when nobody would be left to train, or the cohort of a round would be empty.
    pub fn training(&self, clients: usize) -> Outcome<usize> {
        if self.new_clients >= clients {
            return Err(Fault::stage(format!(
                "`new_clients` is {}, but the partition has {clients} clients: nobody is left to train",
                self.new_clients
            ))
            .help("ask for more clients in the partition, or for fewer new ones"));
        }
        let left = clients - self.new_clients;
        if self.nominal_cohort(left) == 0 {
            return Err(Fault::stage(format!("`join_ratio` {} of {left} clients leaves no client in a round", self.join_ratio))
                .help("raise `join_ratio`: the count is N times the ratio, rounded down"));
        }
        Ok(left)
    }
    /// The number of clients in a round of `clients`: the join ratio's count, truncated in f64 as the reference does.
    #[must_use]
    pub fn nominal_cohort(&self, clients: usize) -> usize {
        ((clients as f64 * self.join_ratio) as usize).min(clients)
    }
    /// How many of `count` training samples are put aside for validation: the ratio's count, rounded down, but at least one where two
    /// are there, and never all.
    #[must_use]
    pub fn validating(&self, count: usize) -> usize {
        if self.validation_ratio <= 0.0 {
            return 0;
        }
        ((count as f64 * self.validation_ratio) as usize).max(1).min(count.saturating_sub(1))
    }
    /// How many of `count` uploads arrive.
    #[must_use]
    pub fn arriving(&self, count: usize) -> usize {
        let exact = (1.0 - self.drop_rate) * count as f64;
        match self.drop_count {
            Rounding::Truncate => exact as usize,
            Rounding::Round => (exact.round() as usize).max(1),
        }
        .min(count)
    }
}
