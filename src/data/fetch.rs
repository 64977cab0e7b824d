//! Fetches files of data sets from their makers: what was begun goes on where it stopped, and only a file with the right checksum
//! gets its name. The only use of the network in the program.
//!
//! Archives stay as they are; loaders read them without unpacking.

use super::remote::Remote;
use crate::base::{Fault, Outcome, text};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Times that a broken transfer is taken up again.
const RETRIES: u32 = 4;
/// The most bytes of a file of which no size is known.
const GREATEST: u64 = 64 << 30;

/// How a file came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It was there, with the right checksum where one is published.
    There,
    /// It was fetched; so many bytes came over the network.
    New(u64),
}

/// How long a connection may give nothing before it counts as broken.
const STALLED: Duration = Duration::from_secs(60);

/// Fetches a file into a folder. `progress` hears of the bytes that are there, and of their number in all where that is known.
///
/// # Errors
/// A storage fault when it cannot be had, is not what it should be, or cannot be written; a file that is not right is removed.
pub fn fetch(remote: &Remote, folder: &Path, progress: &mut dyn FnMut(u64, Option<u64>)) -> Outcome<Fetched> {
    fetch_within(remote, folder, STALLED, progress)
}

/// As [`fetch`], where a connection that gives nothing for `stalled` is broken off and taken up again.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_within(remote: &Remote, folder: &Path, stalled: Duration, progress: &mut dyn FnMut(u64, Option<u64>)) -> Outcome<Fetched> {
    let path = folder.join(remote.file);
    if path.is_file() {
        return remote
            .sum
            .check_file(&path)
            .map(|()| Fetched::There)
            .map_err(|fault| Fault { help: Some(format!("remove `{}` to have it fetched again", path.display())), ..fault });
    }
    if remote.url.is_empty() {
        return Err(Fault::storage(format!("`{}` cannot be fetched by a program", remote.file)));
    }
    std::fs::create_dir_all(folder).map_err(|e| Fault::io("create", folder, &e))?;
    let part = PathBuf::from(format!("{}.part", path.display()));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .http_status_as_error(false)
        .user_agent(concat!("pflpipe/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let resumed = std::fs::metadata(&part).is_ok_and(|meta| meta.len() > 0);
    let mut received = transfer(&agent, remote, &part, stalled, progress)?;
    let mut checked = remote.sum.check_file(&part);
    if resumed && checked.is_err() {
        // What lay there was of something else.
        remove(&part)?;
        received += transfer(&agent, remote, &part, stalled, progress)?;
        checked = remote.sum.check_file(&part);
    }
    if let Err(fault) = checked {
        remove(&part)?;
        let help = "the file may have changed at its source; fetch it again later, or get it by hand";
        return Err(Fault { help: Some(help.to_owned()), ..fault });
    }
    std::fs::rename(&part, &path).map_err(|e| Fault::io("rename", &part, &e))?;
    Ok(Fetched::New(received))
}

fn remove(path: &Path) -> Outcome<()> {
    std::fs::remove_file(path).map_err(|e| Fault::io("remove", path, &e))
}

/// Why a transfer ended early.
enum Broken {
    /// It may go on.
    Network(String),
    /// Nobody was reached: no such name, no network, nobody listens. One more try is enough.
    Unreachable(String),
    Fatal(Fault),
}

/// Gets the rest of the file; returns the bytes that came.
fn transfer(
    agent: &ureq::Agent,
    remote: &Remote,
    part: &Path,
    stalled: Duration,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Outcome<u64> {
    let mut received = 0;
    let mut tries = 0;
    loop {
        let before = received;
        match attempt(agent, remote, part, stalled, &mut received, progress) {
            Ok(()) => return Ok(received),
            Err(Broken::Fatal(fault)) => return Err(fault),
            Err(Broken::Unreachable(why)) if tries > 0 => return Err(Fault::storage(format!("cannot fetch `{}`: {why}", remote.url))),
            Err(Broken::Network(why) | Broken::Unreachable(why)) => {
                // Whoever gets on may go on.
                tries = if received > before { 1 } else { tries + 1 };
                if tries > RETRIES {
                    return Err(Fault::storage(format!("cannot fetch `{}`: {why}", remote.url)));
                }
                std::thread::sleep(Duration::from_millis(200 << tries));
            }
        }
    }
}

fn attempt(
    agent: &ureq::Agent,
    remote: &Remote,
    part: &Path,
    stalled: Duration,
    received: &mut u64,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), Broken> {
    let io = |e: std::io::Error| Broken::Fatal(Fault::io("write", part, &e));
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(part).map_err(io)?;
    let mut have = file.seek(SeekFrom::End(0)).map_err(io)?;
    if remote.size > 0 && have >= remote.size {
        if have == remote.size {
            return Ok(());
        }
        have = restart(&mut file).map_err(io)?;
    }
    let request = agent.get(remote.url);
    let request = if have > 0 { request.header("Range", format!("bytes={have}-")) } else { request };
    let response = request.call().map_err(|e| match e {
        ureq::Error::BadUri(why) => Broken::Fatal(Fault::storage(format!("`{}` is no address: {why}", remote.url))),
        ureq::Error::Timeout(what) => Broken::Network(format!("no answer in time ({what})")),
        // A name that is not known, a refused connection, a certificate that is not right.
        other => Broken::Unreachable(other.to_string()),
    })?;
    let status = response.status().as_u16();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    match status {
        206 if header("content-range").starts_with(&format!("bytes {have}-")) => {}
        // Without support for parts everything comes again.
        200 => have = restart(&mut file).map_err(io)?,
        // The part is not one of this file.
        206 | 416 => {
            restart(&mut file).map_err(io)?;
            return Err(Broken::Network(format!("status {status} for the rest from byte {have}")));
        }
        408 | 425 | 429 | 500..=599 => return Err(Broken::Network(format!("status {status}"))),
        _ => return Err(Broken::Fatal(Fault::storage(format!("cannot fetch `{}`: status {status}", remote.url)))),
    }
    if header("content-type").starts_with("text/html") {
        return Err(Broken::Fatal(Fault::storage(format!("`{}` gives a page instead of the file", remote.url))));
    }
    let length = header("content-length").parse::<u64>().ok();
    let total = length.map(|length| have + length).or((remote.size > 0).then_some(remote.size));
    let most = if remote.size > 0 { remote.size } else { GREATEST };
    let pieces = pieces(response.into_body().into_reader());
    loop {
        let piece = match pieces.recv_timeout(stalled) {
            Ok(Ok(piece)) => piece,
            Ok(Err(e)) => return Err(Broken::Network(e.to_string())),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = stalled.as_secs_f64();
                return Err(Broken::Network(format!("the connection gave nothing for {seconds} seconds, after {have} bytes")));
            }
        };
        file.write_all(&piece).map_err(io)?;
        have += piece.len() as u64;
        *received += piece.len() as u64;
        if have > most {
            restart(&mut file).map_err(io)?;
            let what = format!("`{}` gives more than the {} that it should", remote.url, text::bytes(most));
            return Err(Broken::Fatal(Fault::storage(what)));
        }
        progress(have, total);
    }
    file.sync_all().map_err(io)?;
    match total {
        Some(total) if have < total => Err(Broken::Network(format!("the connection ended after {have} of {total} bytes"))),
        _ => Ok(()),
    }
}

/// The content of an answer, piece by piece; no more after the last one or an error. It is read by a thread of its own, so that who
/// waits can stop waiting: the library knows no limit on silence. The thread ends with the connection, or when nobody listens.
fn pieces(mut body: impl Read + Send + 'static) -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, pieces) = std::sync::mpsc::sync_channel(4);
    let unstarted = sender.clone();
    let read = move || {
        let mut buffer = vec![0; 1 << 17];
        loop {
            let (piece, ends) = match body.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => (Ok(buffer[..count].to_vec()), false),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => (Err(e), true),
            };
            if sender.send(piece).is_err() || ends {
                return;
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().spawn(read) {
        // Its receiver is below.
        let _ = unstarted.send(Err(error));
    }
    pieces
}

fn restart(file: &mut File) -> std::io::Result<u64> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))
}
