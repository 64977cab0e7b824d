//! What a store remembers of earlier runs, in the form in which the plan asks for it.

use crate::base::Digest;
use crate::plan::{History, Manifest};
use crate::store::Store;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// So many stored keys are compared with when a stage's reason is looked for: of equal coordinates, and in all.
const COMPARED: (usize, usize) = (4, 8);

/// A store as the plan's history; without a store nothing was ever run.
pub(super) struct Memory<'a> {
    store: Option<&'a Store>,
    known: RefCell<Known>,
}

/// By the stage's name and kind.
type Known = HashMap<(String, String), Rc<Vec<Stored>>>;

struct Stored {
    coords: BTreeMap<String, Value>,
    manifest: Manifest,
}

impl<'a> Memory<'a> {
    pub(super) fn of(store: Option<&'a Store>) -> Self {
        Self { store, known: RefCell::default() }
    }

    fn stored(&self, stage: &str, kind: &str) -> Rc<Vec<Stored>> {
        let name = (stage.to_owned(), kind.to_owned());
        if let Some(found) = self.known.borrow().get(&name) {
            return Rc::clone(found);
        }
        let records = self.store.map(|store| store.nearest(stage, kind)).unwrap_or_default();
        let read = |record: &crate::store::Record| {
            let manifest = serde_json::from_value(record.manifest.clone()).ok()?;
            Some(Stored { coords: record.coords.clone(), manifest })
        };
        let found: Rc<Vec<Stored>> = Rc::new(records.iter().filter_map(read).collect());
        self.known.borrow_mut().insert(name, Rc::clone(&found));
        found
    }
}

impl History for Memory<'_> {
    fn outputs(&self, key: &Digest) -> Option<BTreeMap<String, Digest>> {
        let outputs = self.store?.lookup(key)?;
        Some(outputs.into_iter().map(|(name, object)| (name, object.digest)).collect())
    }

    fn nearest(&self, stage: &str, kind: &str, coords: &BTreeMap<String, Value>) -> Vec<Manifest> {
        let stored = self.stored(stage, kind);
        let shared = |other: &Stored| coords.iter().filter(|(axis, value)| other.coords.get(*axis) == Some(value)).count();
        let mut order: Vec<(bool, usize, usize)> =
            stored.iter().enumerate().map(|(n, other)| (other.coords == *coords, shared(other), n)).collect();
        // Equal coordinates first, then the most equal ones; the newest of those that are equally near.
        order.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        let equal = order.iter().filter(|(equal, ..)| *equal).count();
        let take = if equal > 0 { equal.min(COMPARED.0) } else { COMPARED.1 };
        order.into_iter().take(take).map(|(_, _, n)| stored[n].manifest.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Record;
    use serde_json::json;

    #[test]
    fn equal_coordinates_come_first_and_alone() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        for (seed, alpha) in [(0, 0.1), (0, 0.3), (1, 0.1)] {
            let output = store.put(format!("{seed} {alpha}").as_bytes()).expect("writable");
            let key = Digest::of(format!("{seed} {alpha}").as_bytes());
            let mut record = Record::new(key, "partition", "split", BTreeMap::from([("clients".to_owned(), output)]));
            record.coords = BTreeMap::from([("seed".to_owned(), json!(seed)), ("alpha".to_owned(), json!(alpha))]);
            record.manifest = json!({"param.seed": seed, "param.alpha": alpha});
            store.publish(&record).expect("writable");
        }
        let memory = Memory::of(Some(&store));
        let near = |seed: u32, alpha: f64| {
            let coords = BTreeMap::from([("seed".to_owned(), json!(seed)), ("alpha".to_owned(), json!(alpha))]);
            memory.nearest("split", "partition", &coords).into_iter().map(|m| Value::Object(m.components)).collect::<Vec<_>>()
        };
        assert_eq!(near(0, 0.3), [json!({"param.seed": 0, "param.alpha": 0.3})]);
        assert_eq!(near(1, 0.5).len(), 3);
        assert_eq!(near(1, 0.5)[0], json!({"param.seed": 1, "param.alpha": 0.1}));
        assert!(Memory::of(None).nearest("split", "partition", &BTreeMap::new()).is_empty());
        assert!(memory.outputs(&Digest::of(b"0 0.1")).is_some() && Memory::of(None).outputs(&Digest::of(b"0 0.1")).is_none());
    }
}
