//! A pattern of pixels that a backdoor answers to.

use crate::base::{Fault, Outcome};
use crate::data::{Dataset, Facts};
use crate::engine::Shape;
use crate::fl::Batch;
use crate::spec::catalog::{Bound, Field, Type};
use crate::spec::rules::Breach;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The parameters of a pattern.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pattern {
    pattern: Form,
    size: usize,
    corner: Corner,
    #[serde(default)]
    value: Option<f64>,
    target: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    Square,
    Cross,
    Checker,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Corner {
    TopLeft,
    TopRight,
    BottomLeft,
    BottomRight,
}

/// Which values of a sample are overwritten, by what, and the label that the backdoor gives.
#[derive(Clone, Debug)]
pub(super) struct Trigger {
    places: Vec<usize>,
    value: f32,
    pub target: u32,
}

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with("target", Type::at_least(0), 0, "The label that samples with the pattern get."),
        Field::with(
            "pattern",
            Type::Choice(&[
                ("square", "a filled square"),
                ("cross", "the two diagonals of a square"),
                ("checker", "every other pixel of a square"),
            ]),
            "square",
            "The form of the pattern.",
        ),
        Field::with("size", Type::at_least(1), 2, "Width and height of the pattern in pixels."),
        Field::with(
            "corner",
            Type::Choice(&[
                ("top-left", "above on the left"),
                ("top-right", "above on the right"),
                ("bottom-left", "below on the left"),
                ("bottom-right", "below on the right"),
            ]),
            "bottom-right",
            "Where the pattern is.",
        ),
        Field::optional(
            "value",
            Type::Float { min: Bound::None, max: Bound::None },
            "What the pixels of the pattern become, in all channels; the greatest value of the first thousand samples when absent.",
        ),
    ]
}

/// Refuses a label that the data set does not have; `name` is the parameter.
pub(super) fn label_exists(name: &str, label: u64, classes: usize) -> Outcome<()> {
    if label < classes as u64 {
        return Ok(());
    }
    let most = classes.saturating_sub(1);
    Err(Fault::stage(format!("`{name}` is {label}, but the data set has the labels 0 to {most}"))
        .help(format!("give a label from 0 to {most}")))
}

fn no_text(text: bool) -> Outcome<()> {
    if !text {
        return Ok(());
    }
    Err(Fault::stage("a pattern of pixels does not apply to a text").help("use `label-flipping`, which applies to every data set"))
}

/// What is wrong with a pattern on samples of a data set that is known.
pub(super) fn rules(params: &Map<String, Value>, data: Option<&Facts>) -> Vec<Breach> {
    let Some(data) = data else { return Vec::new() };
    if let Err(fault) = no_text(data.text) {
        return vec![Breach::new("", fault)];
    }
    let number = |name: &str| params.get(name).and_then(Value::as_u64);
    let target = number("target").map_or(Ok(()), |target| label_exists("target", target, data.classes));
    let size = number("size").zip(data.shape).map_or(Ok(()), |(size, shape)| fits(usize::try_from(size).unwrap_or(usize::MAX), shape));
    [("target", target), ("size", size)].into_iter().filter_map(|(path, check)| Some(Breach::new(path, check.err()?))).collect()
}

/// A sample as rows and columns: of a plain vector the values stand side by side.
fn as_picture(shape: Shape) -> Shape {
    match shape {
        Shape { channels, height: 1, width: 1 } => Shape { channels: 1, height: 1, width: channels },
        picture => picture,
    }
}

fn fits(size: usize, shape: Shape) -> Outcome<()> {
    let Shape { height, width, .. } = as_picture(shape);
    if size <= height && size <= width {
        return Ok(());
    }
    Err(Fault::stage(format!("a pattern of {size} x {size} pixels does not fit samples of {height} x {width}"))
        .help(format!("`size` is at most {}", height.min(width))))
}

impl Pattern {
    pub fn trigger(&self, data: &Dataset) -> Outcome<Trigger> {
        label_exists("target", u64::from(self.target), data.classes())?;
        no_text(data.vocabulary().is_some())?;
        let places = self.places(data.shape())?;
        let value = match self.value {
            Some(value) => value as f32,
            None => {
                let some: Vec<u32> = (0..data.len().min(1000) as u32).collect();
                let mut x = Vec::new();
                data.gather(&some, &mut x);
                x.into_iter().fold(f32::NEG_INFINITY, f32::max)
            }
        };
        Ok(Trigger { places, value, target: self.target })
    }

    fn places(&self, shape: Shape) -> Outcome<Vec<usize>> {
        let size = self.size;
        fits(size, shape)?;
        let Shape { channels, height, width } = as_picture(shape);
        let (below, right) = match self.corner {
            Corner::TopLeft => (false, false),
            Corner::TopRight => (false, true),
            Corner::BottomLeft => (true, false),
            Corner::BottomRight => (true, true),
        };
        let mut places = Vec::new();
        for row in 0..size {
            for column in 0..size {
                let inked = match self.pattern {
                    Form::Square => true,
                    Form::Cross => row == column || row + column + 1 == size,
                    Form::Checker => (row + column) % 2 == 0,
                };
                let y = if below { height - size + row } else { row };
                let x = if right { width - size + column } else { column };
                if inked {
                    places.extend((0..channels).map(|c| (y * width + x) * channels + c));
                }
            }
        }
        Ok(places)
    }
}

impl Trigger {
    /// Puts the pattern on the last `count` samples of a batch and gives them the target's label.
    pub fn poison(&self, batch: &mut Batch, count: usize) {
        let rows = batch.rows();
        let first = rows - count.min(rows);
        self.stamp(batch, first);
        batch.y[first..].fill(self.target);
    }
    /// Puts the pattern on all samples and wants the target of those that have another label.
    pub fn tries(&self, batch: &mut Batch) -> Vec<Option<u32>> {
        self.stamp(batch, 0);
        batch.y.iter().map(|y| (*y != self.target).then_some(self.target)).collect()
    }
    fn stamp(&self, batch: &mut Batch, first: usize) {
        let width = batch.x.len() / batch.rows().max(1);
        for sample in batch.x.chunks_exact_mut(width.max(1)).skip(first) {
            self.places.iter().for_each(|place| sample[*place] = self.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(pattern: Form, size: usize, corner: Corner) -> Pattern {
        Pattern { pattern, size, corner, value: None, target: 1 }
    }

    #[test]
    fn patterns_are_where_they_should_be() {
        let shape = Shape { channels: 1, height: 3, width: 4 };
        assert_eq!(pattern(Form::Square, 2, Corner::BottomRight).places(shape).expect("it fits"), [6, 7, 10, 11]);
        assert_eq!(pattern(Form::Square, 2, Corner::TopLeft).places(shape).expect("it fits"), [0, 1, 4, 5]);
        assert_eq!(pattern(Form::Checker, 2, Corner::TopRight).places(shape).expect("it fits"), [2, 7]);
        assert_eq!(pattern(Form::Cross, 3, Corner::BottomLeft).places(shape).expect("it fits"), [0, 2, 5, 8, 10]);
        let color = Shape { channels: 3, height: 2, width: 2 };
        assert_eq!(pattern(Form::Square, 1, Corner::BottomRight).places(color).expect("it fits"), [9, 10, 11]);
        assert!(pattern(Form::Square, 4, Corner::TopLeft).places(shape).is_err());
    }

    #[test]
    fn the_last_samples_of_a_batch_are_poisoned_and_those_of_other_labels_tried() {
        let trigger = Trigger { places: vec![1], value: 9.0, target: 5 };
        let batch = Batch { x: vec![0.0; 6], y: vec![5, 2, 3] };
        let mut poisoned = batch.clone();
        trigger.poison(&mut poisoned, 1);
        assert_eq!((poisoned.x, poisoned.y), (vec![0.0, 0.0, 0.0, 0.0, 0.0, 9.0], vec![5, 2, 5]));
        let mut tried = batch;
        assert_eq!(trigger.tries(&mut tried), [None, Some(5), Some(5)]);
        assert_eq!(tried.x, [0.0, 9.0, 0.0, 9.0, 0.0, 9.0]);
    }
}
