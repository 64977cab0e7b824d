//! The algorithms, one file each; a file holds only what is new in its algorithm.
//!
//! Adding one takes a file and a line in [`all`]. From outside this crate, implement [`Algorithm`] and add it with
//! [`Algorithms::with`].

mod apfl;
mod apple;
mod ditto;
mod fd;
mod fedala;
mod fedamp;
mod fedas;
mod fedavg;
mod fedbabu;
mod fedbn;
mod fedcac;
mod fedcp;
mod fedcross;
mod feddbe;
mod feddyn;
mod fedfomo;
mod fedgc;
mod fedgen;
mod fedgh;
mod fedkd;
mod fedlc;
mod fedmtl;
mod fedntd;
mod fedpac;
mod fedpcl;
mod fedper;
mod fedphp;
mod fedproto;
mod fedprox;
mod fedrep;
mod fedrod;
mod fml;
mod gpfl;
mod lgfedavg;
mod local;
mod moon;
mod perfedavg;
mod pfedme;
mod pflda;
mod scaffold;
mod shared;

use crate::base::{Fault, Outcome};
use crate::fl::{Algorithm, Description, Simulation};
use crate::spec::catalog::{Default, Variant};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// An algorithm's documentation, and how to make it from its hyper-parameters.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The documentation.
    pub description: Description,
    build: fn(Value) -> Result<Box<dyn Simulation>, serde_json::Error>,
}

/// The known algorithms.
#[derive(Clone, Debug)]
pub struct Algorithms(Vec<Entry>);

/// Every algorithm of this crate, in the order in which `pflpipe algorithms` lists them.
#[must_use]
pub fn all() -> Algorithms {
    Algorithms(vec![
        entry::<fedavg::FedAvg>(),
        entry::<local::Local>(),
        entry::<fedmtl::FedMtl>(),
        entry::<perfedavg::PerFedAvg>(),
        entry::<pfedme::PFedMe>(),
        entry::<fedprox::FedProx>(),
        entry::<fedfomo::FedFomo>(),
        entry::<fedamp::FedAmp>(),
        entry::<apfl::Apfl>(),
        entry::<scaffold::Scaffold>(),
        entry::<ditto::Ditto>(),
        entry::<fedper::FedPer>(),
        entry::<fedrep::FedRep>(),
        entry::<fedphp::FedPhp>(),
        entry::<fedbn::FedBn>(),
        entry::<fedrod::FedRod>(),
        entry::<fedproto::FedProto>(),
        entry::<feddyn::FedDyn>(),
        entry::<moon::Moon>(),
        entry::<fedbabu::FedBabu>(),
        entry::<apple::Apple>(),
        entry::<fedgen::FedGen>(),
        entry::<fd::Fd>(),
        entry::<fedala::FedAla>(),
        entry::<fedpac::FedPac>(),
        entry::<lgfedavg::LgFedAvg>(),
        entry::<fedgc::FedGc>(),
        entry::<fml::Fml>(),
        entry::<fedkd::FedKd>(),
        entry::<fedpcl::FedPcl>(),
        entry::<fedcp::FedCp>(),
        entry::<gpfl::Gpfl>(),
        entry::<fedntd::FedNtd>(),
        entry::<fedgh::FedGh>(),
        entry::<feddbe::FedDbe>(),
        entry::<fedcac::FedCac>(),
        entry::<pflda::PflDa>(),
        entry::<fedlc::FedLc>(),
        entry::<fedas::FedAs>(),
        entry::<fedcross::FedCross>(),
    ])
}

/// The registry entry of an algorithm whose hyper-parameters are the fields of its type.
#[must_use]
pub fn entry<A: Algorithm + DeserializeOwned>() -> Entry {
    let mut description = A::describe();
    for field in &mut description.fields {
        if field.symbol.is_empty() {
            field.symbol = "-";
        }
        // A single behaviour follows the preset unless it is set.
        if field.source.is_empty() && field.default == Default::Absent {
            field.source = "that of `variant`";
        }
    }
    Entry { description, build: |params| Ok(Box::new(serde_json::from_value::<A>(params)?)) }
}

impl Algorithms {
    /// Adds an algorithm from outside the crate.
    #[must_use]
    pub fn with(mut self, entry: Entry) -> Self {
        self.0.push(entry);
        self
    }
    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }
    /// The entry of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.description.name == name)
    }
    /// The algorithm that `params` (its `name` and every hyper-parameter) describe.
    ///
    /// # Errors
    /// A stage fault: no such algorithm, or parameters that do not fit it.
    pub fn build(&self, params: &Map<String, Value>) -> Outcome<Box<dyn Simulation>> {
        let mut params = params.clone();
        let name = params.remove("name");
        let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
        let entry = self.get(name).ok_or_else(|| Fault::stage(format!("there is no algorithm `{name}`")))?;
        (entry.build)(Value::Object(params)).map_err(|e| Fault::stage(format!("the hyper-parameters of `{name}` do not fit: {e}")))
    }
    /// The catalog's description of each.
    #[must_use]
    pub fn variants(&self) -> Vec<Variant> {
        self.iter()
            .map(|e| Variant {
                name: e.description.name,
                doc: e.description.rule,
                revision: e.description.revision,
                fields: e.description.fields.clone(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_algorithm_and_hyper_parameter_is_described() {
        let all = all();
        assert_eq!(all.iter().count(), 40);
        let names: BTreeSet<_> = all.iter().map(|entry| entry.description.name).collect();
        assert_eq!(names.len(), 40);
        for Entry { description: d, .. } in all.iter() {
            for text in [d.title, d.family, d.paper, d.personal, d.rule] {
                assert!(!text.is_empty() && !text.ends_with('.'), "{}: `{text}`", d.name);
            }
            assert!(d.name == "local" || d.paper.contains(&d.year.to_string()), "{}: the paper names its year", d.name);
            for field in &d.fields {
                let complete = !field.symbol.is_empty() && !field.source.is_empty() && field.doc.ends_with('.');
                assert!(complete, "{}: `{}` lacks its symbol, its source or a sentence", d.name, field.name);
                let preset = d.fields.iter().any(|f| f.name == "variant");
                assert!(preset || !field.source.contains("variant"), "{}: `{}` has no preset to follow", d.name, field.name);
            }
        }
    }
}
