//! Comma-separated values as RFC 4180 has them: fields in quotation marks may hold commas, line feeds and doubled quotation marks.

/// The lines with their numbers, counted from 1; empty lines are left out. The error is the line in which a quotation mark opens that
/// is not closed.
pub(super) fn parse(text: &str) -> Result<Vec<(usize, Vec<String>)>, usize> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut lines, mut fields, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut start, mut open) = (1, 1, None);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, open) {
            ('"', Some(_)) if chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            ('"', Some(_)) => open = None,
            ('"', None) if field.is_empty() => open = Some(line),
            (',', None) => fields.push(std::mem::take(&mut field)),
            ('\r', None) if chars.peek() == Some(&'\n') => {}
            ('\n', None) => {
                line += 1;
                finish(&mut lines, &mut fields, &mut field, start);
                start = line;
            }
            (c, _) => {
                line += usize::from(c == '\n');
                field.push(c);
            }
        }
    }
    if let Some(line) = open {
        return Err(line);
    }
    finish(&mut lines, &mut fields, &mut field, start);
    Ok(lines)
}

fn finish(lines: &mut Vec<(usize, Vec<String>)>, fields: &mut Vec<String>, field: &mut String, start: usize) {
    if fields.is_empty() && field.is_empty() {
        return;
    }
    fields.push(std::mem::take(field));
    lines.push((start, std::mem::take(fields)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_commas_and_line_feeds() {
        let lines = parse("a,\"b, \"\"c\"\"\",\r\n\n\"x\ny\",2\n").expect("valid");
        assert_eq!(lines[0], (1, vec!["a".to_owned(), "b, \"c\"".to_owned(), String::new()]));
        assert_eq!(lines[1], (3, vec!["x\ny".to_owned(), "2".to_owned()]));
        assert_eq!(parse("a\n\"b"), Err(2));
    }
}
