//! Small helpers for messages: the nearest name, plurals, lists, durations and sizes.

/// The candidate nearest to `wanted` by edit distance, when it is near enough to be meant.
#[must_use]
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wanted.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|c| (distance(&wanted.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// The optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let substitute = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// `1 stage`, `3 stages`: the count with its noun; nouns in `-y` after a consonant become `-ies`.
#[must_use]
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 {
        return format!("1 {noun}");
    }
    format!("{n} {}", plural(noun))
}

/// The plural of a noun: parties, classes, days.
#[must_use]
pub fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with('s') => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// A number as written, without a sign where all its digits are zero: `-0.00` is `0.00`.
#[must_use]
pub fn signless_zero(number: String) -> String {
    match number.strip_prefix(['-', '+']) {
        Some(rest) if !rest.contains(|c: char| ('1'..='9').contains(&c)) => rest.to_owned(),
        _ => number,
    }
}

/// The row that a name means, of a table with these labels: its label, a part of it, or the name before its hyper-parameters.
#[must_use]
pub fn find_row(rows: &[String], name: &str) -> Option<usize> {
    let bare = |label: &str| label.split('(').next().unwrap_or_default().trim().to_owned();
    rows.iter()
        .position(|label| label == name)
        .or_else(|| rows.iter().position(|label| bare(label) == name))
        .or_else(|| rows.iter().position(|label| label.split(", ").any(|part| part == name || bare(part) == name)))
}

/// The names in backticks, separated by commas.
#[must_use]
pub fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

/// The text with everything escaped that HTML and SVG would take for markup, in elements and in quoted attributes.
#[must_use]
pub fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// `12.3 MiB`: bytes for people.
#[must_use]
pub fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{n} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// `850 ms`, `12.3 s`, `4 min 05 s`, `2 h 03 min`: a duration for people.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
    }
}

/// A size in bytes: a number, or one with `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB`, `GiB` or `TiB`.
///
/// # Errors
/// What to write instead.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || "write bytes as a number, or `500MB`, `2GiB`".to_owned();
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| wrong())?;
    let unit = match text[end..].trim() {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "TiB" => 1_099_511_627_776.0,
        _ => return Err(wrong()),
    };
    // Nobody has more than what a float counts exactly.
    let bytes = number * unit;
    if bytes < 9e15 { Ok(bytes as u64) } else { Err("that is more than any machine has".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typos_and_nothing_else() {
        let names = ["partition", "train", "model"];
        assert_eq!(nearest("parttion", names), Some("partition"));
        assert_eq!(nearest("tarin", names), Some("train"));
        assert_eq!(nearest("zebra", names), None);
    }

    #[test]
    fn zero_has_no_sign() {
        let texts = ["-0.00", "+0.0 %", "-0.01", "+1", "0", "-1e-9"];
        assert_eq!(texts.map(|text| signless_zero(text.to_owned())), ["0.00", "0.0 %", "-0.01", "+1", "0", "-1e-9"]);
    }

    #[test]
    fn words_for_people() {
        assert_eq!(count(1, "stage"), "1 stage");
        assert_eq!(count(2, "entry"), "2 entries");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(duration(0.25), "250 ms");
        assert_eq!(duration(125.0), "2 min 05 s");
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("1000", 1000), ("1.5kB", 1500), ("2 GiB", 2 << 30), ("1MB", 1_000_000)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1XB", "1..2", "99999TB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
