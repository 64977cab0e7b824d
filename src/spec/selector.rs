//! Selectors of measurements as texts: `last`, `mean_last(20)`, `at_best(train_loss)`.

use super::diagnostic::suggest;

/// Whether a selector is of a pattern: `last`, `mean_last(K)` with a whole number, `at_best(METRIC)` with a metric.
pub(super) fn selects(pattern: &str, selector: &str, metrics: &[&str]) -> bool {
    let (Some((name, inside)), Some((wanted, kind))) = (selector.split_once('('), pattern.split_once('(')) else {
        return pattern == selector;
    };
    let Some(inside) = inside.strip_suffix(')').map(str::trim) else { return false };
    let fits = match kind {
        "K)" => inside.parse::<u64>().is_ok_and(|k| k > 0 || wanted == "at_round"),
        _ => metrics.contains(&inside),
    };
    name.trim() == wanted && fits
}

/// What is wrong inside the parentheses of a selector; none where its name already is.
pub(super) fn why_not(selector: &str, patterns: &[&str], metrics: &[&str]) -> Option<String> {
    let (name, inside) = selector.split_once('(')?;
    let (name, inside) = (name.trim(), inside.strip_suffix(')')?.trim());
    let kind = patterns.iter().filter_map(|pattern| pattern.split_once('(')).find(|(known, _)| *known == name)?.1;
    Some(match kind {
        "K)" => {
            let least = u8::from(name != "at_round");
            format!("`{name}` takes a whole number of at least {least}, found `{inside}`")
        }
        _ => {
            let near = suggest(inside, metrics.iter().copied()).map(|help| format!(": {help}")).unwrap_or_default();
            format!("`{name}` takes a metric, and `{inside}` is none{near}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_inside_is_said() {
        let (patterns, metrics) = (["last", "mean_last(K)", "at_round(K)", "at_best(METRIC)"], ["test_accuracy", "train_loss"]);
        let why = |text: &str| why_not(text, &patterns, &metrics).unwrap_or_default();
        assert_eq!(why("mean_last(0)"), "`mean_last` takes a whole number of at least 1, found `0`");
        assert_eq!(why("at_round(x)"), "`at_round` takes a whole number of at least 0, found `x`");
        assert!(why("at_best(test_acc)").starts_with("`at_best` takes a metric, and `test_acc` is none: "));
        assert!(why("at_best(test_acc)").contains("test_accuracy"));
        assert_eq!((why("mean(3)"), why("last")), (String::new(), String::new()));
        assert!(selects("at_round(K)", "at_round(0)", &metrics) && !selects("mean_last(K)", "mean_last(0)", &metrics));
    }
}
