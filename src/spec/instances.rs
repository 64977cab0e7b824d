//! Every stage for every combination of the axes that it reads, with effective parameters; and the order of the stages.

use super::catalog::Catalog;
use super::cells::{ABSENT, Cells, scope_of};
use super::check::{Cache, Checker, Reference};
use super::diagnostic::{At, Diagnostic, Problems};
use super::expr::Scope;
use super::idle;
use super::node::{Data, Node, Place, short};
use super::params::Params;
use super::pipeline::{Instance, Stage};
use super::rules::{Breach, Setups};
use super::stages::{RunOptions, StageCode, run_options};
use super::vars::Vars;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Evaluates and checks every stage for every combination of the axes that it reads.
pub(super) struct Instances<'a, 'e> {
    pub vars: &'a Vars<'e>,
    pub cells: &'a Cells,
    pub constants: &'a Scope<'a>,
    pub catalog: &'a dyn Catalog,
    pub problems: &'a mut Problems,
}

/// After so many errors in a stage, its other combinations are not looked at.
const ENOUGH: usize = 20;

struct Draft {
    instances: Vec<(Params, Vec<Reference>, RunOptions)>,
    /// For each of them whether nothing was wrong with its parameters.
    sound: Vec<bool>,
    instance_of: Vec<u32>,
    axes: Vec<usize>,
}

impl<'e> Instances<'_, 'e> {
    /// The stages in order, or `None` after an error.
    pub fn all(mut self, stages: &[StageCode<'e, '_>]) -> Option<Vec<Stage>> {
        let kinds: BTreeMap<&str, &'static str> = stages.iter().map(|stage| (stage.name.as_str(), stage.kind.name)).collect();
        let mut cache = Cache::default();
        let drafts: Vec<Draft> = stages.iter().map(|stage| self.stage(stage, &kinds, &mut cache)).collect();
        let order = self.order(stages, &drafts)?;
        if self.cells.sound {
            self.rules(stages, &drafts, &order);
        }
        if self.problems.errors() > 0 {
            return None;
        }
        let mut position = vec![0; stages.len()];
        order.iter().enumerate().for_each(|(new, old)| position[*old] = new);
        let index: HashMap<&str, usize> = stages.iter().enumerate().map(|(i, stage)| (stage.name.as_str(), position[i])).collect();
        let mut sorted: Vec<(usize, Stage)> = stages
            .iter()
            .zip(drafts)
            .enumerate()
            .map(|(i, (stage, draft))| {
                let instances = draft
                    .instances
                    .into_iter()
                    .map(|(params, references, options)| Instance {
                        params: Arc::new(params),
                        inputs: references.into_iter().filter_map(|r| Some((r.slot, *index.get(r.stage.as_str())?, r.outputs))).collect(),
                        options,
                    })
                    .collect();
                let kind = stage.kind.name;
                (position[i], Stage { name: stage.name.clone(), kind, axes: draft.axes, instances, instance_of: draft.instance_of })
            })
            .collect();
        sorted.sort_by_key(|(position, _)| *position);
        Some(sorted.into_iter().map(|(_, stage)| stage).collect())
    }

    fn stage(&mut self, stage: &StageCode<'e, '_>, kinds: &BTreeMap<&str, &'static str>, cache: &mut Cache) -> Draft {
        let mut names = BTreeSet::new();
        stage.names(&mut names);
        let reads = self.vars.reads(&names);
        let axes: Vec<usize> =
            self.cells.axes.iter().enumerate().filter(|(_, axis)| reads.axes.contains(&axis.name)).map(|(index, _)| index).collect();
        let mut from_expressions = HashSet::new();
        stage.expression_places(&mut from_expressions);
        let mut draft = Draft { instances: Vec::new(), sound: Vec::new(), instance_of: Vec::with_capacity(self.cells.cells.len()), axes };
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        let before = self.problems.errors();
        let mut idle = idle::Seen::default();
        let nothing = vec![vec![ABSENT; self.cells.axes.len()]];
        // Without sound cells the stage is still checked, but for what the axes would bring.
        let cells = if self.cells.sound { &self.cells.cells } else { &nothing };
        for cell in cells {
            let key: Vec<u32> = draft.axes.iter().map(|axis| cell[*axis]).collect();
            if let Some(instance) = known.get(&key) {
                draft.instance_of.push(*instance);
                continue;
            }
            let mut scope = scope_of(&self.cells.axes, self.vars, self.constants, &reads, cell, self.problems);
            if !self.cells.sound {
                scope.broken.extend(draft.axes.iter().map(|axis| self.cells.axes[*axis].name.as_str()));
                scope.broken.extend(reads.varying.iter().map(String::as_str));
            }
            let first = self.problems.len();
            let params = stage.eval(&scope, self.problems);
            let options: BTreeMap<&'static str, Node> =
                stage.options.iter().map(|(name, code)| (*name, code.eval(&scope, self.problems))).collect();
            let mut checker = Checker {
                stage: &stage.name,
                stages: kinds,
                inherited: &stage.inherited,
                cache,
                problems: self.problems,
                references: Vec::new(),
                idle: &mut idle,
            };
            let params = checker.stage(&stage.kind.shape, &params);
            let references = checker.references;
            let sound = self.problems.len() == first;
            let options = run_options(&stage.name, stage.kind, &options, self.problems);
            for problem in self.problems.since(first) {
                if let (At::Place(place), false) = (problem.at, draft.axes.is_empty())
                    && problem.label.is_empty()
                    && from_expressions.contains(&place)
                {
                    problem.label = format!("in the cell {}", self.cells.label(cell, &draft.axes));
                }
            }
            let instance = u32::try_from(draft.instances.len()).unwrap_or(u32::MAX);
            draft.instances.push((params, references, options));
            draft.sound.push(sound);
            draft.instance_of.push(instance);
            known.insert(key, instance);
            if self.problems.errors() >= before + ENOUGH {
                break;
            }
        }
        self.problems.extend(idle.in_no_cell());
        draft
    }

    /// Asks the catalog's rules about every stage with those that it reads, once for each combination of them.
    fn rules(&mut self, stages: &[StageCode<'e, '_>], drafts: &[Draft], order: &[usize]) {
        let index: HashMap<&str, usize> = stages.iter().enumerate().map(|(i, stage)| (stage.name.as_str(), i)).collect();
        let mut setups = Setups::default();
        // For each stage: its setup in each cell, where it is sound, and the axes that it or what it reads depends on.
        let mut setup_of: Vec<Vec<Option<usize>>> = vec![Vec::new(); stages.len()];
        let mut axes: Vec<BTreeSet<usize>> = drafts.iter().map(|draft| draft.axes.iter().copied().collect()).collect();
        for &at in order {
            let (stage, draft) = (&stages[at], &drafts[at]);
            let mut known: HashMap<(u32, Vec<Option<usize>>), Option<usize>> = HashMap::new();
            // The first cell of each breach by path and message, and how many combinations have it.
            let mut found: Vec<(Breach, usize, usize)> = Vec::new();
            for (cell, instance) in draft.instance_of.iter().enumerate() {
                let Some((params, references, _)) = draft.instances.get(*instance as usize) else {
                    setup_of[at].push(None);
                    continue;
                };
                let target = |reference: &Reference| index.get(reference.stage.as_str()).copied();
                let inputs: Vec<Option<usize>> =
                    references.iter().map(|r| target(r).and_then(|target| *setup_of[target].get(cell)?)).collect();
                let key = (*instance, inputs);
                if let Some(id) = known.get(&key) {
                    setup_of[at].push(*id);
                    continue;
                }
                let id = draft.sound[*instance as usize].then(|| {
                    let slots = references.iter().zip(&key.1).filter_map(|(r, id)| Some((r.slot.as_str(), (*id)?))).collect();
                    for target in references.iter().filter_map(target) {
                        let theirs = axes[target].clone();
                        axes[at].extend(theirs);
                    }
                    setups.add(stage.kind.name, params, slots)
                });
                for breach in id.and_then(|id| setups.get(id)).map(|setup| self.catalog.rules(&setup)).unwrap_or_default() {
                    if let Some((_, _, count)) = found.iter_mut().find(|(other, _, _)| *other == breach) {
                        *count += 1;
                    } else if found.len() < ENOUGH {
                        found.push((breach, cell, 1));
                    }
                }
                known.insert(key, id);
                setup_of[at].push(id);
            }
            let axes: Vec<usize> = axes[at].iter().copied().collect();
            for (breach, cell, count) in found {
                self.report(stage, &breach, (cell, count, known.len()), &axes);
            }
        }
    }

    /// Reports a breach at the parameter that it is about. `seen` are the first cell that has it, how many combinations do, and of how
    /// many.
    fn report(&mut self, stage: &StageCode<'e, '_>, breach: &Breach, seen: (usize, usize, usize), axes: &[usize]) {
        let (first, count, all) = seen;
        let cell = &self.cells.cells[first];
        let mut names = BTreeSet::new();
        stage.names(&mut names);
        let reads = self.vars.reads(&names);
        // The parameters once more, with their places; what is wrong with them was said before.
        let mut silent = Problems::default();
        let scope = scope_of(&self.cells.axes, self.vars, self.constants, &reads, cell, &mut silent);
        let params = stage.eval(&scope, &mut silent);
        let mut message = format!("stage `{}`: {}", stage.name, breach.fault.what);
        if let Some(place) = breach.fault.at.last() {
            message = format!("stage `{}`: {place}: {}", stage.name, breach.fault.what);
        }
        let label = match self.cells.label(cell, axes) {
            _ if all == 1 => String::new(),
            label if count == 1 => format!("in the cell {label}"),
            label => format!("in {count} cells, the first is {label}"),
        };
        let diagnostic = if breach.warns { Diagnostic::warning } else { Diagnostic::error };
        let problem = diagnostic("conflict", message).at(deepest(&params, &breach.path)).label(label);
        self.problems.push(problem.help_if(breach.fault.help.clone()));
    }

    /// The stages in an order in which each comes after those that it needs, otherwise as in the text.
    fn order(&mut self, stages: &[StageCode<'e, '_>], drafts: &[Draft]) -> Option<Vec<usize>> {
        let index: HashMap<&str, usize> = stages.iter().enumerate().map(|(i, stage)| (stage.name.as_str(), i)).collect();
        let mut needs: Vec<BTreeMap<usize, Place>> = vec![BTreeMap::new(); stages.len()];
        for (i, draft) in drafts.iter().enumerate() {
            for reference in draft.instances.iter().flat_map(|(_, references, _)| references) {
                if let Some(target) = index.get(reference.stage.as_str()) {
                    needs[i].entry(*target).or_insert(reference.place);
                }
            }
        }
        let mut order = Vec::new();
        let mut placed = vec![false; stages.len()];
        while order.len() < stages.len() {
            let next = (0..stages.len()).find(|i| !placed[*i] && needs[*i].keys().all(|need| placed[*need]));
            if let Some(next) = next {
                placed[next] = true;
                order.push(next);
                continue;
            }
            let mut path = vec![(0..stages.len()).find(|i| !placed[*i])?];
            let circle = loop {
                let last = path[path.len() - 1];
                let next = *needs[last].keys().find(|need| !placed[**need])?;
                match path.iter().position(|i| *i == next) {
                    Some(start) => break path.split_off(start),
                    None => path.push(next),
                }
            };
            let names: Vec<&str> = circle.iter().chain([&circle[0]]).map(|i| stages[*i].name.as_str()).collect();
            let at = needs[circle[circle.len() - 1]][&circle[0]];
            self.problems.push(
                Diagnostic::error("cycle", format!("stages need each other: {}", names.join(" -> ")))
                    .at(at)
                    .label("this closes the circle")
                    .help("one of them must do without the other"),
            );
            return None;
        }
        Some(order)
    }
}

/// The place of the parameter at a path, or of the nearest map around it that the text has.
fn deepest(params: &Node, path: &str) -> Place {
    let mut node = params;
    for part in path.split('.') {
        let inner = match &node.data {
            Data::Map(_) => node.get(part),
            Data::List(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        match inner {
            Some(inner) => node = inner,
            None => break,
        }
    }
    node.place
}

impl Cells {
    /// `alpha=0.1, seed=0`.
    fn label(&self, cell: &[u32], axes: &[usize]) -> String {
        let parts = axes.iter().filter_map(|axis| {
            let axis_values = &self.axes[*axis];
            Some(format!("{}={}", axis_values.name, short(axis_values.values.get(cell[*axis] as usize)?)))
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}
