//! Writes pickles of dictionaries of arrays.

/// What a dictionary holds.
pub(in super::super) enum Values<'a> {
    /// An array, little endian: its type, shape and bytes.
    Array(&'a str, &'a [usize], &'a [u8]),
    /// A list of texts: the numbers of the words, filled up, and how many of them the text has.
    Texts(&'a [(Vec<u32>, u32)]),
}

/// The pickle of an array of objects without dimensions that holds a dictionary of arrays or texts: what `numpy.savez(file, data=d)`
/// stores of a dictionary `d`.
pub(in super::super) fn dictionary(fields: &[(&str, Values<'_>)]) -> Vec<u8> {
    let mut out = vec![0x80, 3];
    let text = |out: &mut Vec<u8>, text: &str| {
        out.push(b'X');
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
    };
    let whole = |out: &mut Vec<u8>, value: u64| {
        out.extend([0x8a, 8]);
        out.extend(value.to_le_bytes());
    };
    let begin = |out: &mut Vec<u8>, shape: &[usize], descr: &str| {
        out.extend(b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01(");
        shape.iter().for_each(|&size| whole(out, size as u64));
        out.extend(b"tcnumpy\ndtype\n");
        text(out, descr.trim_start_matches(['<', '|']));
        out.extend(b"\x89\x88\x87R(K\x03");
        text(out, &descr[..1]);
        // No fields, no base type; size and alignment are those of the type, but unknown to it for objects (63 is a flag of theirs).
        out.extend(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff");
        whole(out, if descr == "|O" { 63 } else { 0 });
        out.extend(b"tb\x89");
    };
    begin(&mut out, &[], "|O");
    out.extend(b"](}(");
    for (name, values) in fields {
        text(&mut out, name);
        let (descr, shape, bytes) = match values {
            Values::Array(descr, shape, bytes) => (descr, shape, bytes),
            Values::Texts(texts) => {
                list_of_texts(&mut out, texts);
                continue;
            }
        };
        begin(&mut out, shape, descr);
        if let Ok(size) = u32::try_from(bytes.len()) {
            out.push(b'B');
            out.extend(size.to_le_bytes());
        } else {
            // Of protocol 4.
            out[1] = 4;
            out.push(0x8e);
            out.extend((bytes.len() as u64).to_le_bytes());
        }
        out.extend(bytes.iter());
        out.extend(b"tb");
    }
    out.extend(b"uetb.");
    out
}

/// A list of pairs of a list of words and their number.
fn list_of_texts(out: &mut Vec<u8>, texts: &[(Vec<u32>, u32)]) {
    let whole = |out: &mut Vec<u8>, value: u32| match (u8::try_from(value), u16::try_from(value)) {
        (Ok(value), _) => out.extend([b'K', value]),
        (_, Ok(value)) => {
            out.push(b'M');
            out.extend(value.to_le_bytes());
        }
        // A vocabulary has fewer words than a signed number of 4 bytes counts.
        _ => {
            out.push(b'J');
            out.extend(value.to_le_bytes());
        }
    };
    out.extend(b"](");
    for (words, length) in texts {
        out.extend(b"](");
        words.iter().for_each(|&word| whole(out, word));
        out.push(b'e');
        whole(out, *length);
        out.push(0x86);
    }
    out.push(b'e');
}
