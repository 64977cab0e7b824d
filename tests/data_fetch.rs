//! Fetching from a server of one's own: whole, in parts, broken off, wrong, and not there at all.

use md5::Digest;
use pflpipe::base::FaultKind;
use pflpipe::data::fetch::{Fetched, fetch, fetch_within};
use pflpipe::data::{Remote, Sum};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the server does with its n-th request.
#[derive(Clone, Copy)]
enum Manner {
    /// Answers with the whole or the asked part.
    Parts,
    /// Answers with the whole whatever is asked.
    Whole,
    /// Says how much comes, but breaks off after so many bytes.
    Breaks(usize),
    /// Says how much comes, and falls silent after so many bytes, for ten seconds.
    Stalls(usize),
    /// Answers with a status alone.
    Status(u16),
    /// Answers with a page.
    Page,
}

struct Server {
    url: &'static str,
    requests: Arc<AtomicUsize>,
}

fn content() -> Vec<u8> {
    (0..200_000_u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect()
}

fn serve(manners: Vec<Manner>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/file.bin", listener.local_addr().expect("bound"));
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let manner = manners[counter.fetch_add(1, Ordering::SeqCst).min(manners.len() - 1)];
            // A client that goes away early is no concern of the server.
            let _ = answer(stream, manner);
        }
    });
    Server { url: url.leak(), requests }
}

fn answer(mut stream: TcpStream, manner: Manner) -> std::io::Result<()> {
    let mut from = 0;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse().expect("a number");
        }
    }
    let content = content();
    match manner {
        Manner::Status(status) => write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        Manner::Page => {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
        }
        _ if from > content.len() => write!(stream, "HTTP/1.1 416 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        _ => {
            let partly = from > 0 && !matches!(manner, Manner::Whole);
            let body = &content[if partly { from } else { 0 }..];
            let status = if partly { "206 Partial" } else { "200 OK" };
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n", body.len())?;
            if partly {
                write!(stream, "content-range: bytes {from}-{}/{}\r\n", content.len() - 1, content.len())?;
            }
            stream.write_all(b"\r\n")?;
            let end = if let Manner::Breaks(after) | Manner::Stalls(after) = manner { after.min(body.len()) } else { body.len() };
            stream.write_all(&body[..end])?;
            if matches!(manner, Manner::Stalls(_)) {
                // The next request must be answered meanwhile.
                std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_secs(10));
                    drop(stream);
                });
            }
            Ok(())
        }
    }
}

fn hex(bytes: &[u8]) -> &'static str {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<String>().leak()
}

fn remote(server: &Server) -> Remote {
    Remote { file: "file.bin", url: server.url, size: 200_000, sum: Sum::Sha256(hex(&sha2::Sha256::digest(content()))) }
}

#[test]
fn a_file_is_fetched_once_with_progress() {
    let server = serve(vec![Manner::Parts]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().join("new/folder");
    let mut seen = Vec::new();
    assert_eq!(fetch(&remote(&server), &folder, &mut |have, total| seen.push((have, total))).expect("sound"), Fetched::New(200_000));
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0) && seen.last() == Some(&(200_000, Some(200_000))), "{seen:?}");
    assert_eq!(std::fs::read(folder.join("file.bin")).expect("there"), content());
    assert_eq!(fetch(&remote(&server), &folder, &mut |_, _| {}).expect("there"), Fetched::There);
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
    let md5 = Remote { sum: Sum::Md5(hex(&md5::Md5::digest(content()))), ..remote(&server) };
    assert_eq!(fetch(&md5, &folder, &mut |_, _| {}).expect("there"), Fetched::There);
    assert_eq!(std::fs::read_dir(&folder).expect("there").count(), 1, "nothing else is left");
}

#[test]
fn what_was_begun_goes_on_where_it_stopped() {
    for (manners, more) in [
        (vec![Manner::Parts], 150_000),
        (vec![Manner::Whole], 200_000),
        (vec![Manner::Breaks(30_000), Manner::Status(503), Manner::Breaks(1), Manner::Parts], 150_000),
    ] {
        let server = serve(manners);
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("file.bin.part"), &content()[..50_000]).expect("a temporary file");
        assert_eq!(fetch(&remote(&server), dir.path(), &mut |_, _| {}).expect("sound"), Fetched::New(more));
        assert_eq!(std::fs::read(dir.path().join("file.bin")).expect("there"), content());
    }
    // A part of another file is noticed at the end, and the file fetched anew.
    let server = serve(vec![Manner::Parts]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("file.bin.part"), vec![7; 50_000]).expect("a temporary file");
    assert_eq!(fetch(&remote(&server), dir.path(), &mut |_, _| {}).expect("sound"), Fetched::New(350_000));
    // So is one that is too long.
    std::fs::remove_file(dir.path().join("file.bin")).expect("there");
    std::fs::write(dir.path().join("file.bin.part"), vec![7; 250_000]).expect("a temporary file");
    assert_eq!(fetch(&remote(&server), dir.path(), &mut |_, _| {}).expect("sound"), Fetched::New(200_000));
}

#[test]
fn a_connection_that_falls_silent_is_taken_up_again() {
    let server = serve(vec![Manner::Stalls(60_000), Manner::Parts]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let began = std::time::Instant::now();
    let fetched = fetch_within(&remote(&server), dir.path(), std::time::Duration::from_millis(300), &mut |_, _| {});
    assert_eq!(fetched.expect("sound"), Fetched::New(200_000));
    assert!(began.elapsed().as_secs() < 9, "it did not wait for the silent one");
    assert_eq!(server.requests.load(Ordering::SeqCst), 2);
}

#[test]
fn what_is_not_right_is_refused_and_removed() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let fault = |server: &Server, change: &dyn Fn(Remote) -> Remote| {
        let fault = fetch(&change(remote(server)), dir.path(), &mut |_, _| {}).expect_err("not right");
        assert_eq!(fault.kind, FaultKind::Storage, "{fault}");
        assert!(!dir.path().join("file.bin").exists());
        fault
    };
    let server = serve(vec![Manner::Parts]);
    let wrong = fault(&server, &|remote| Remote { sum: Sum::Md5("00"), ..remote });
    assert!(wrong.what.contains("expected md5 00, found"), "{wrong}");
    assert!(!dir.path().join("file.bin.part").exists());
    assert!(fault(&server, &|remote| Remote { size: 1000, ..remote }).what.contains("more than the 1000 B that it should"));
    assert!(fault(&serve(vec![Manner::Status(404)]), &|remote| remote).what.contains("status 404"));
    assert!(fault(&serve(vec![Manner::Page]), &|remote| remote).what.contains("gives a page instead of the file"));
    let down = fault(&serve(vec![Manner::Status(503)]), &|remote| remote);
    assert!(down.what.contains("cannot fetch `http://127.0.0.1") && down.what.contains("status 503"), "{down}");
    // Nobody listens there.
    assert!(
        fault(&server, &|remote| Remote { url: "http://127.0.0.1:9/x", ..remote }).what.contains("cannot fetch `http://127.0.0.1:9/x`")
    );
    assert!(fault(&server, &|remote| Remote { url: "", ..remote }).what.contains("cannot be fetched by a program"));
    // A file that is there, but is not the one.
    std::fs::write(dir.path().join("file.bin"), b"mine").expect("a temporary file");
    let there = fetch(&remote(&server), dir.path(), &mut |_, _| {}).expect_err("another file");
    assert!(there.help.expect("help").contains("remove `"));
    assert_eq!(std::fs::read(dir.path().join("file.bin")).expect("there"), b"mine", "what is the user's stays");
}
