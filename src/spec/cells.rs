//! The cells of a sweep: the values of the axes, and how they combine.
//!
//! Order: `grid` times `zip`, then `when`, `exclude`, `include`, and the command line's `--where`; then `max` is checked.

use super::code::Code;
use super::diagnostic::{At, Diagnostic, Problems, suggest};
use super::expr::{Bound, Failure, Program, Scope};
use super::node::{Data, Key, Node, Place, answers_to, short};
use super::sweep::{DEFAULT_MAX, Entries, Exclusion, Product, SweepCode};
use super::vars::{Reads, Vars};
use crate::base::{canon, text};
use serde_json::{Number, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The value index of an axis that a cell does not have.
pub const ABSENT: u32 = u32::MAX;

/// No sweep may pass through more cells than this on its way, whatever `max` says.
const MOST: usize = 1_000_000;

/// An axis with all the values that it has anywhere.
pub struct AxisValues {
    /// As expressions call it.
    pub name: String,
    /// Where it is first named.
    pub place: Place,
    /// Its values, for expressions.
    pub bound: Vec<Arc<Bound>>,
    /// Its values.
    pub values: Vec<Value>,
    /// The conditions under which cells have it; empty when all have it.
    pub conditions: Vec<String>,
    nodes: Vec<Node>,
    index: HashMap<Vec<u8>, u32>,
}

/// The cells: for each axis the index of its value, or [`ABSENT`].
pub struct Cells {
    /// The axes in the order of the text.
    pub axes: Vec<AxisValues>,
    /// The cells in order.
    pub cells: Vec<Vec<u32>>,
    /// Whether the values are worth checking stages against.
    pub sound: bool,
}

impl<'e> SweepCode<'e> {
    /// Works out the cells. `limited` names the axes whose values the command line replaced: they bind `include` too.
    pub fn expand(
        &self,
        vars: &Vars<'e>,
        names: &[(String, Place)],
        constants: &Scope<'_>,
        limited: &[String],
        problems: &mut Problems,
    ) -> Cells {
        let before = problems.errors();
        let mut values = Values { axes: Vec::new(), vars, constants, problems };
        for (name, place) in names {
            values.axes.push(AxisValues {
                name: name.clone(),
                place: *place,
                bound: Vec::new(),
                values: Vec::new(),
                conditions: Vec::new(),
                nodes: Vec::new(),
                index: HashMap::new(),
            });
        }
        let main = values.product(&self.main);
        let mut everywhere: HashSet<usize> = main.iter().flat_map(|factor| factor.axes.iter().copied()).collect();
        let when: Vec<Vec<Factor>> = self.when.iter().map(|(_, _, product)| values.product(product)).collect();
        let before_include: Vec<usize> = values.axes.iter().map(|axis| axis.values.len()).collect();
        let include: Vec<(Place, Vec<(usize, u32)>)> =
            self.include.iter().map(|(place, entries)| (*place, values.points(entries))).collect();
        let exclude: Vec<(Place, Vec<(usize, Node)>)> = self
            .exclude
            .iter()
            .map(|(place, exclusion)| match exclusion {
                Exclusion::Values(entries) => (*place, values.wanted(entries)),
                Exclusion::If(_) => (*place, Vec::new()),
            })
            .collect();
        let max = values.max(&self.max);
        let mut axes = values.axes;
        if main.is_empty() && when.is_empty() {
            everywhere.extend(0..axes.len());
        }
        for (index, axis) in axes.iter_mut().enumerate() {
            let named = axis.values.iter().any(Value::is_object);
            axis.bound = axis.nodes.drain(..).map(|node| Arc::new(Bound::new(node, named))).collect();
            axis.index.clear();
            if !everywhere.contains(&index) {
                let conditions = self.when.iter().zip(&when).filter(|(_, factors)| factors.iter().any(|f| f.axes.contains(&index)));
                axis.conditions = conditions.map(|((_, source, _), _)| source.clone()).collect();
            }
        }
        let mut cells = vec![vec![ABSENT; axes.len()]];
        let swept = !main.is_empty() || !self.include.is_empty();
        let mut run = Expansion { axes: &axes, vars, constants, problems };
        let mut sound = false;
        if run.multiply(&mut cells, &main, self.place) {
            for ((program, _, _), factors) in self.when.iter().zip(&when) {
                run.when(&mut cells, program, factors, self.place);
            }
            for ((place, exclusion), (_, wanted)) in self.exclude.iter().zip(&exclude) {
                let matched = run.exclude(&mut cells, exclusion, wanted);
                if matched == 0 && limited.is_empty() && self.filters.is_empty() {
                    run.problems.push(Diagnostic::warning("exclude", "this excludes no cell").at(*place));
                }
            }
            if main.is_empty() && !self.include.is_empty() {
                cells.clear();
            }
            let allowed = |index: usize, value: u32| !limited.contains(&axes[index].name) || (value as usize) < before_include[index];
            let mut seen: HashSet<Vec<u32>> = HashSet::new();
            // Only these two can bring a cell twice.
            if !self.when.is_empty() || !self.include.is_empty() {
                cells.retain(|cell| seen.insert(cell.clone()));
            }
            for (place, points) in &include {
                let mut cell = vec![ABSENT; axes.len()];
                points.iter().for_each(|(axis, value)| cell[*axis] = *value);
                if !points.iter().all(|(axis, value)| allowed(*axis, *value)) {
                    continue;
                }
                if seen.insert(cell.clone()) {
                    cells.push(cell);
                } else {
                    run.problems.push(Diagnostic::warning("include", "this cell is there already").at(*place));
                }
            }
            let all = cells.len();
            for (place, program) in &self.filters {
                run.filter(&mut cells, program);
                if cells.is_empty() && all > 0 {
                    let message = format!("no cell fits `--where`; without it there would be {}", text::count(all, "cell"));
                    run.problems.push(Diagnostic::error("where", message).at(*place));
                    break;
                }
            }
            if all == 0 && swept && run.problems.errors() == before {
                let at = self.place.map_or(At::Nowhere, At::Place);
                run.problems.push(
                    Diagnostic::error("empty-sweep", "the sweep has no cells")
                        .at(at)
                        .help("give every axis a value, and look at `exclude`"),
                );
            }
            sound = run.problems.errors() == before;
            if let Some((max, place)) = max.filter(|(max, _)| cells.len() > *max) {
                let message = format!("the sweep has {} cells, more than `max: {max}`", cells.len());
                run.problems.push(
                    Diagnostic::error("max", message)
                        .at(place.or(self.place).map_or(At::Nowhere, At::Place))
                        .help("narrow the sweep, or raise it: `sweep: {max: ...}`"),
                );
                // What nobody will run need not be worked out.
                cells.truncate(max);
            }
        }
        Cells { axes, cells, sound }
    }
}

/// Axes that vary together, with the rows of their value indices.
struct Factor {
    axes: Vec<usize>,
    rows: Vec<Vec<u32>>,
}

struct Values<'a, 'e> {
    axes: Vec<AxisValues>,
    vars: &'a Vars<'e>,
    constants: &'a Scope<'a>,
    problems: &'a mut Problems,
}

impl<'e> Values<'_, 'e> {
    fn product(&mut self, product: &Product<'e>) -> Vec<Factor> {
        let mut factors = Vec::new();
        for (key, code) in &product.grid {
            let (Some(axis), Some(values)) = (self.axis(key), self.list(key, code)) else { continue };
            factors.push(Factor { axes: vec![axis], rows: values.into_iter().map(|value| vec![value]).collect() });
        }
        for (place, group) in &product.zip {
            let columns: Vec<Option<(usize, Vec<u32>)>> =
                group.iter().map(|(key, code)| Some((self.axis(key)?, self.list(key, code)?))).collect();
            let Some(columns) = columns.into_iter().collect::<Option<Vec<_>>>() else { continue };
            let lengths: Vec<String> =
                group.iter().zip(&columns).map(|((key, _), (_, c))| format!("`{}` has {}", key.text, c.len())).collect();
            let Some(n) = columns.first().map(|(_, column)| column.len()) else { continue };
            if columns.iter().any(|(_, column)| column.len() != n) {
                self.problems
                    .push(Diagnostic::error("zip", format!("tied axes need equally many values: {}", lengths.join(", "))).at(*place));
                continue;
            }
            factors.push(Factor {
                axes: columns.iter().map(|(axis, _)| *axis).collect(),
                rows: (0..n).map(|row| columns.iter().map(|(_, column)| column[row]).collect()).collect(),
            });
        }
        factors
    }
    fn axis(&mut self, key: &Key) -> Option<usize> {
        let found = self.axes.iter().position(|axis| *axis.name == *key.text);
        if found.is_none() {
            let help = suggest(&key.text, self.axes.iter().map(|axis| axis.name.as_str()));
            self.problems.push(Diagnostic::error("unknown-axis", format!("`{}` is not an axis", key.text)).at(key.place).help_if(help));
        }
        found
    }
    /// A value that may depend on variables, but not on axes.
    fn constant(&mut self, key: &Key, code: &Code<'e>) -> Option<Node> {
        let mut names = BTreeSet::new();
        code.names(&mut names);
        if let Some(axis) = self.vars.reads(&names).axes.first() {
            self.problems.push(
                Diagnostic::error("sweep", format!("the values of `{}` depend on the axis `{axis}`", key.text))
                    .at(code.place())
                    .help("axes for only some cells belong under `when`; a value that follows from an axis belongs under `vars`"),
            );
            return None;
        }
        let node = code.eval(self.constants, self.problems);
        (!node.has_hole()).then_some(node)
    }
    fn list(&mut self, key: &Key, code: &Code<'e>) -> Option<Vec<u32>> {
        let axis = self.axis(key)?;
        let node = self.constant(key, code)?;
        let name = &key.text;
        let mut refuse = |place, message: String, help: &str| self.problems.push(Diagnostic::error("axis", message).at(place).help(help));
        let items = match &node.data {
            Data::List(items) if items.is_empty() => {
                refuse(node.place, format!("axis `{name}` has no values"), "give it a value, or remove it");
                return None;
            }
            Data::List(items) => items.clone(),
            Data::Map(entries) if entries.len() == 1 && &*entries[0].0.text == "range" => match range(&entries[0].1) {
                Ok(numbers) => numbers.into_iter().map(|n| Node::scalar(node.place, n.into())).collect(),
                Err(message) => {
                    refuse(entries[0].1.place, message, "`{range: [0, 3]}` is 0, 1, 2; a third number is the step");
                    return None;
                }
            },
            _ => {
                let help = match node.text() {
                    Some(text) if text.contains("..") => "write `{range: [0, 3]}` for 0, 1, 2",
                    _ => "write `[a, b]`, or `{range: [0, 3]}`",
                };
                refuse(node.place, format!("axis `{name}` needs a list of values, found {}", node.describe()), help);
                return None;
            }
        };
        let mut indices = Vec::with_capacity(items.len());
        let mut seen = HashSet::new();
        for item in items {
            if item.is_null() {
                self.problems.push(Diagnostic::error("axis", format!("a value of axis `{name}` is empty")).at(item.place));
                continue;
            }
            let place = item.place;
            let index = self.intern(axis, item);
            if seen.insert(index) {
                indices.push(index);
            } else {
                let value = short(&self.axes[axis].values[index as usize]);
                self.problems
                    .push(Diagnostic::warning("duplicate-value", format!("axis `{name}` has the value `{value}` twice")).at(place));
            }
        }
        Some(indices)
    }
    fn intern(&mut self, axis: usize, node: Node) -> u32 {
        let axis = &mut self.axes[axis];
        let value = node.to_value();
        let mut key = Vec::new();
        canon::encode(&normal(&value), &mut key);
        *axis.index.entry(key).or_insert_with(|| {
            axis.values.push(value);
            axis.nodes.push(node);
            u32::try_from(axis.values.len() - 1).unwrap_or(ABSENT - 1)
        })
    }
    fn points(&mut self, entries: &Entries<'e>) -> Vec<(usize, u32)> {
        let mut points = Vec::new();
        for (key, code) in entries {
            let (Some(axis), Some(node)) = (self.axis(key), self.constant(key, code)) else { continue };
            points.push((axis, self.intern(axis, node)));
        }
        points
    }
    fn wanted(&mut self, entries: &Entries<'e>) -> Vec<(usize, Node)> {
        entries.iter().filter_map(|(key, code)| Some((self.axis(key)?, self.constant(key, code)?))).collect()
    }
    fn max(&mut self, code: &Code<'e>) -> Option<(usize, Option<Place>)> {
        let node = code.eval(self.constants, self.problems);
        let given = !matches!(code, Code::Const(Node { data: Data::Scalar(value), .. }) if value == &Value::from(DEFAULT_MAX));
        match &node.data {
            Data::Hole => None,
            Data::Scalar(Value::Number(n)) if n.as_u64().is_some_and(|n| n > 0) => {
                n.as_u64().and_then(|n| usize::try_from(n).ok()).map(|n| (n, given.then_some(node.place)))
            }
            _ => {
                self.problems.push(
                    Diagnostic::error("type", format!("`max` must be an integer of at least 1, found {}", node.describe())).at(node.place),
                );
                None
            }
        }
    }
}

/// Equal numbers get equal encodings, whether written `1` or `1.0`.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(n) => match n.as_f64() {
            // Within 2^53 every integer is a float of its own.
            Some(f) if f.abs() < 9e15 => Number::from_f64(f).map_or(Value::Null, Value::Number),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), normal(value))).collect()),
        other => other.clone(),
    }
}

fn range(node: &Node) -> Result<Vec<i64>, String> {
    let numbers: Option<Vec<i64>> = node.items().and_then(|items| {
        items.iter().map(|item| if let Data::Scalar(Value::Number(n)) = &item.data { n.as_i64() } else { None }).collect()
    });
    let (start, stop, step) = match numbers.as_deref() {
        Some([start, stop]) => (*start, *stop, 1),
        Some([start, stop, step]) => (*start, *stop, *step),
        _ => return Err("a range consists of two or three integers".to_owned()),
    };
    if step == 0 {
        return Err("the step of a range cannot be 0".to_owned());
    }
    let length = (i128::from(stop) - i128::from(start)).unsigned_abs().div_ceil(i128::from(step).unsigned_abs());
    let empty = (stop > start) != (step > 0) || stop == start;
    if empty {
        return Err(format!("the range from {start} to {stop} is empty; its end is left out"));
    }
    if length > MOST as u128 {
        return Err(format!("the range has {length} values; at most {MOST} are possible"));
    }
    let mut values = Vec::new();
    let mut next = start;
    while if step > 0 { next < stop } else { next > stop } {
        values.push(next);
        let Some(after) = next.checked_add(step) else { break };
        next = after;
    }
    Ok(values)
}

struct Expansion<'a, 'e> {
    axes: &'a [AxisValues],
    vars: &'a Vars<'e>,
    constants: &'a Scope<'a>,
    problems: &'a mut Problems,
}

impl<'a, 'e> Expansion<'a, 'e> {
    fn multiply(&mut self, cells: &mut Vec<Vec<u32>>, factors: &[Factor], place: Option<Place>) -> bool {
        for factor in factors {
            if cells.len().saturating_mul(factor.rows.len()) > MOST {
                self.problems.push(
                    Diagnostic::error("max", format!("the sweep spans more than {MOST} cells"))
                        .at(place.map_or(At::Nowhere, At::Place))
                        .help("narrow the sweep"),
                );
                return false;
            }
            let mut next = Vec::with_capacity(cells.len() * factor.rows.len());
            for cell in cells.iter() {
                for row in &factor.rows {
                    let mut cell = cell.clone();
                    factor.axes.iter().zip(row).for_each(|(axis, value)| cell[*axis] = *value);
                    next.push(cell);
                }
            }
            *cells = next;
        }
        true
    }
    fn when(&mut self, cells: &mut Vec<Vec<u32>>, program: &Program<'e>, factors: &[Factor], place: Option<Place>) {
        let reads = self.vars.reads(program.names());
        let mut next = Vec::with_capacity(cells.len());
        for cell in std::mem::take(cells) {
            if !self.holds(program, &reads, &cell) {
                next.push(cell);
                continue;
            }
            if let Some(axis) = factors.iter().flat_map(|factor| &factor.axes).find(|axis| cell[**axis] != ABSENT) {
                let axis = &self.axes[*axis];
                self.problems.push(
                    Diagnostic::error("when", format!("`when` gives axis `{}` to cells that have it already", axis.name))
                        .at(axis.place)
                        .help("make the conditions exclude each other, or take the axis out of `grid`"),
                );
                return;
            }
            let mut grown = vec![cell];
            if !self.multiply(&mut grown, factors, place) {
                return;
            }
            next.extend(grown);
        }
        *cells = next;
    }
    fn exclude(&mut self, cells: &mut Vec<Vec<u32>>, exclusion: &Exclusion<'e>, wanted: &[(usize, Node)]) -> usize {
        let before = cells.len();
        match exclusion {
            Exclusion::If(program) => {
                let reads = self.vars.reads(program.names());
                cells.retain(|cell| !self.holds(program, &reads, cell));
            }
            Exclusion::Values(_) if wanted.is_empty() => {}
            Exclusion::Values(_) => {
                let tables: Vec<(usize, Vec<bool>)> = wanted
                    .iter()
                    .map(|(axis, node)| {
                        // A list stands for any of its items.
                        let any: Vec<Value> =
                            node.items().map_or_else(|| vec![node.to_value()], |items| items.iter().map(Node::to_value).collect());
                        let whole = node.to_value();
                        (
                            *axis,
                            self.axes[*axis].values.iter().map(|v| answers_to(v, &whole) || any.iter().any(|w| answers_to(v, w))).collect(),
                        )
                    })
                    .collect();
                cells.retain(|cell| !tables.iter().all(|(axis, fits)| fits.get(cell[*axis] as usize).copied().unwrap_or(false)));
            }
        }
        before - cells.len()
    }
    fn filter(&mut self, cells: &mut Vec<Vec<u32>>, program: &Program<'e>) {
        let reads = self.vars.reads(program.names());
        cells.retain(|cell| self.holds(program, &reads, cell));
    }
    fn holds(&mut self, program: &Program<'e>, reads: &Reads, cell: &[u32]) -> bool {
        let scope = scope_of(self.axes, self.vars, self.constants, reads, cell, self.problems);
        match program.holds(&scope) {
            Ok(holds) => holds,
            Err(Failure::Undefined(problem) | Failure::Wrong(problem)) => {
                self.problems.push(*problem);
                false
            }
            Err(Failure::Reported) => false,
        }
    }
}

/// The values of the names that an expression reads, in one cell.
pub fn scope_of<'s>(
    axes: &'s [AxisValues],
    vars: &'s Vars<'_>,
    constants: &Scope<'s>,
    reads: &Reads,
    cell: &[u32],
    problems: &mut Problems,
) -> Scope<'s> {
    let mut scope = Scope { broken: constants.broken.clone(), ..Scope::default() };
    for name in &reads.vars {
        if let Some((name, bound)) = constants.bound.get_key_value(name.as_str()) {
            scope.bound.insert(name, bound.clone());
        }
    }
    for (axis, value) in axes.iter().zip(cell) {
        if !reads.axes.contains(&axis.name) {
            continue;
        }
        match axis.bound.get(*value as usize) {
            Some(bound) => {
                scope.bound.insert(&axis.name, bound.clone());
            }
            None => {
                scope.absent.insert(&axis.name, absent(axis));
            }
        }
    }
    vars.bind_varying(&reads.varying, &mut scope, problems);
    scope
}

fn absent(axis: &AxisValues) -> String {
    let name = &axis.name;
    match axis.conditions.as_slice() {
        [] => format!("some cells of `include` do not name `{name}`; name it there, or write `{name} | default(...)`"),
        conditions => format!("only cells with `{}` have the axis `{name}`; write `{name} | default(...)`", conditions.join("` or `")),
    }
}
