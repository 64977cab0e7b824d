//! The rules of what a training reads: data sets, partitions, models.

use crate::spec::rules::{Breach, Setup};
use crate::{data, models};
use serde_json::{Map, Value};

/// Of a data set.
pub(super) fn dataset(stage: &Setup<'_>) -> Vec<Breach> {
    stage.word("name").map(|name| data::rules(name, &stage.params().to_map())).unwrap_or_default()
}

/// Of a partition, with its data set.
pub(super) fn partition(stage: &Setup<'_>) -> Vec<Breach> {
    let known = stage.input("data").and_then(|data| facts(&data));
    data::partition::rules(&stage.params().to_map(), known.as_ref())
}

/// Of a model, with its data set.
pub(super) fn model(stage: &Setup<'_>) -> Vec<Breach> {
    let Some(kind) = stage.word("kind") else { return Vec::new() };
    let params = of_family(stage);
    let breaches = models::rules(kind, &params);
    let Some(facts) = stage.input("data").and_then(|data| facts(&data)).filter(|_| breaches.is_empty()) else { return breaches };
    if let Err(fault) = models::suits(kind, &params, facts.text) {
        return vec![Breach::new("kind", fault)];
    }
    if let Some(vocabulary) = facts.words
        && let Err(fault) = models::enough_words(kind, &params, vocabulary.size.into(), vocabulary.padding.into())
    {
        return vec![Breach::new("words", fault)];
    }
    if let Some(vocabulary) = facts.words
        && let Err(fault) = models::padding_is_a_word(kind, &params, vocabulary.size.into())
    {
        return vec![Breach::new("padding", fault)];
    }
    let Some(shape) = facts.shape else { return breaches };
    // Of other texts the words are known when they are read; that they fit makes no difference here.
    let params = if facts.text { models::with_some_words(kind, &params) } else { params };
    models::build(kind, &params, shape, facts.classes).err().map(|fault| Breach::new("", fault)).into_iter().collect()
}

/// The parameters of a model's family: those of its stage without what every model has.
fn of_family(model: &Setup<'_>) -> Map<String, Value> {
    let mut params = model.params().to_map();
    params.retain(|name, value| !["kind", "seed", "data"].contains(&name.as_str()) && !value.is_null());
    params
}

/// What is known of a data set without its files.
pub(super) fn facts(dataset: &Setup<'_>) -> Option<data::Facts> {
    data::facts(dataset.word("name")?, &dataset.params().to_map())
}

/// Whether the model of a training keeps running statistics, as far as that is known.
pub(super) fn keeps_statistics(train: &Setup<'_>) -> bool {
    let Some(model) = train.input("model") else { return false };
    let Some(kind) = model.word("kind") else { return false };
    let params = of_family(&model);
    let shape = model.input("data").and_then(|data| facts(&data)).and_then(|facts| facts.shape);
    models::keeps_statistics(kind, &params, shape).unwrap_or_default()
}
