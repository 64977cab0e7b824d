//! What a store remembers of earlier runs, in the form in which the plan asks for it.

use crate::base::Digest;
use crate::plan::{History, Manifest};
use crate::store::{Record, Store};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// So many stored keys are compared with when a stage's reason is looked for: of equal coordinates, or where there are none of any.
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

/// What a record's key was made of.
fn manifest(record: &Record) -> Option<Manifest> {
    serde_json::from_value(record.manifest.clone()).ok()
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
        let read = |record: &Record| Some(Stored { coords: record.coords.clone(), manifest: manifest(record)? });
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
        let alike = self.store.map(|store| store.alike(stage, kind, coords, COMPARED.0)).unwrap_or_default();
        let alike: Vec<Manifest> = alike.iter().filter_map(manifest).collect();
        if !alike.is_empty() {
            return alike;
        }
        let stored = self.stored(stage, kind);
        let shared = |other: &Stored| coords.iter().filter(|(axis, value)| other.coords.get(*axis) == Some(value)).count();
        let mut order: Vec<(usize, usize)> = stored.iter().enumerate().map(|(n, other)| (shared(other), n)).collect();
        // The most equal coordinates first; the newest of those that are equally near.
        order.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        order.into_iter().take(COMPARED.1).map(|(_, n)| stored[n].manifest.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        // However many results of other coordinates came later.
        for n in 0..300u32 {
            let output = store.put(&n.to_le_bytes()).expect("writable");
            let mut record =
                Record::new(Digest::of(&n.to_le_bytes()), "partition", "split", BTreeMap::from([("clients".to_owned(), output)]));
            record.coords = BTreeMap::from([("seed".to_owned(), json!(n + 10))]);
            record.started = "2100-01-01T00:00:00Z".to_owned();
            record.manifest = json!({"param.seed": n});
            store.publish(&record).expect("writable");
        }
        let store = Store::open(dir.path()).expect("a store");
        let memory = Memory::of(Some(&store));
        let coords = BTreeMap::from([("seed".to_owned(), json!(0)), ("alpha".to_owned(), json!(0.3))]);
        let found: Vec<_> = memory.nearest("split", "partition", &coords).into_iter().map(|m| Value::Object(m.components)).collect();
        assert_eq!(found, [json!({"param.seed": 0, "param.alpha": 0.3})]);
        assert!(Memory::of(None).nearest("split", "partition", &BTreeMap::new()).is_empty());
        assert!(memory.outputs(&Digest::of(b"0 0.1")).is_some() && Memory::of(None).outputs(&Digest::of(b"0 0.1")).is_none());
    }
}
