//! What stages warned of while they ran, as their records keep it: told at the end of a run, in `status` and in the report, also of
//! stages that are cached.

use crate::base::text::count;
use crate::store::Record;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How many different lines of a stage are shown.
const LINES: usize = 3;

/// The warnings of the stages of one name in a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfStage {
    warnings: usize,
    instances: usize,
    /// Different lines: the first instance that has it, and how many more have it.
    lines: Vec<(String, String, usize)>,
}

/// The warnings of many stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Warned(BTreeMap<String, OfStage>);

impl Warned {
    /// Those in these records, each by the label of its stage in this pipeline.
    pub fn of(records: impl IntoIterator<Item = (String, Record)>) -> Self {
        let mut all = Self::default();
        for (label, record) in records {
            all.add(&label, &record.warnings);
        }
        all
    }
    fn add(&mut self, label: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        let name = label.split('[').next().unwrap_or(label);
        let stage = self.0.entry(name.to_owned()).or_default();
        stage.warnings += lines.len();
        stage.instances += 1;
        for line in lines {
            match stage.lines.iter_mut().find(|(known, ..)| known == line) {
                Some((.., more)) => *more += 1,
                None => stage.lines.push((line.clone(), label.to_owned(), 0)),
            }
        }
    }
    /// For each stage how many there are, the first different ones, and where the rest is.
    pub fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (name, stage) in &self.0 {
            let of = if stage.instances > 1 { format!(" in {} of its instances", stage.instances) } else { String::new() };
            told.push(format!("{} of stage `{name}`{of}:", count(stage.warnings, "warning")));
            for line in stage.lines.iter().take(LINES) {
                told.push(format!("  {}", said(line)));
            }
            if let Some((_, label, _)) = stage.lines.get(LINES) {
                let rest = stage.lines.len() - LINES;
                told.push(format!("  and {} more: `pflpipe logs '{label}'` has the first of them", count(rest, "line")));
            }
        }
        told
    }
    /// Every different line with where it comes from.
    pub fn lines(&self) -> Vec<String> {
        self.0.values().flat_map(|stage| stage.lines.iter().map(said)).collect()
    }
    /// The same for programs.
    pub fn json(&self) -> Value {
        let of = |stage: &OfStage| json!({"warnings": stage.warnings, "instances": stage.instances, "lines": stage.lines.iter().map(said).collect::<Vec<_>>()});
        Value::Object(self.0.iter().map(|(name, stage)| (name.clone(), of(stage))).collect())
    }
}

fn said((line, label, more): &(String, String, usize)) -> String {
    let others = if *more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{label}{others}: {line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_told_once_and_long_lists_are_cut() {
        let mut warned = Warned::default();
        warned.add("run[seed=0]", &["nobody trained".to_owned()]);
        warned.add("run[seed=1]", &["nobody trained".to_owned(), "b".to_owned()]);
        warned.add("split", &[]);
        assert_eq!(
            warned.told(),
            ["3 warnings of stage `run` in 2 of its instances:", "  run[seed=0] and 1 more: nobody trained", "  run[seed=1]: b"]
        );
        warned.add("run[seed=2]", &["c".to_owned(), "d".to_owned(), "e".to_owned()]);
        assert_eq!(
            warned.told().last().map(String::as_str),
            Some("  and 2 lines more: `pflpipe logs 'run[seed=2]'` has the first of them")
        );
        assert_eq!(warned.lines().len(), 5);
    }
}
