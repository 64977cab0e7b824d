//! What a result was measured with, in terms in which published and own results can be compared.

use super::Published;
use serde::Serialize;

/// How samples were given to clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partition {
    /// All clients alike.
    Iid,
    /// Label skew with this concentration.
    Dirichlet(f64),
    /// This many classes a client.
    Pathological(u64),
}

impl std::fmt::Display for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Iid => f.write_str("iid"),
            Self::Dirichlet(alpha) => write!(f, "dirichlet {alpha}"),
            Self::Pathological(classes) => write!(f, "pathological with {classes} classes"),
        }
    }
}

/// A setup, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Setup {
    /// The data set.
    pub dataset: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The partition.
    pub partition: Option<Partition>,
    /// Clients in all.
    pub clients: Option<u64>,
    /// Rounds of communication.
    pub rounds: Option<u64>,
    /// Samples a step.
    pub batch_size: Option<u64>,
    /// Passes of a client over its data in a round.
    pub local_epochs: Option<u64>,
    /// Step size.
    pub learning_rate: Option<f64>,
    /// Fraction of the clients in a round.
    pub join_ratio: Option<f64>,
    /// The local optimizer.
    pub optimizer: Option<String>,
    /// Seeds, or repetitions.
    pub trials: Option<u64>,
}

/// A name without anything but letters and digits, in lower case, and without what stands in parentheses: `Per-FedAvg` is `perfedavg`.
/// Names of one thing become one.
#[must_use]
pub fn plain(name: &str) -> String {
    let bare = name.split('(').next().unwrap_or_default();
    let text: String = bare.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    match text.as_str() {
        "fmnist" => "fashionmnist".to_owned(),
        "feddistill" => "fd".to_owned(),
        "cnn" | "4layercnn" | "simplecnn" => "4layercnn".to_owned(),
        "federatedemnist" => "femnist".to_owned(),
        _ => text,
    }
}

/// What a published line says of itself, over what its table says of all.
pub(super) fn of(line: &Published, table: Setup) -> Setup {
    let scenario = line.scenario.to_lowercase();
    Setup {
        dataset: stated(&line.dataset, "not stated"),
        model: stated(&line.model, "see "),
        partition: partition(&scenario),
        clients: after(&scenario, "n=").map(|n| n as u64),
        rounds: after(&scenario, "rounds=").map(|n| n as u64).or(table.rounds),
        join_ratio: after(&scenario, "sample=").or(table.join_ratio),
        ..table
    }
}

/// A name, unless it is empty or says that there is none.
fn stated(name: &str, none: &str) -> Option<String> {
    (!name.trim().is_empty() && !name.starts_with(none)).then(|| name.to_owned())
}

fn partition(scenario: &str) -> Option<Partition> {
    let dirichlet = ["dirichlet", "lda", "labeldir"].iter().any(|word| scenario.contains(word));
    if dirichlet {
        ["beta=", "alpha=", "("].iter().find_map(|word| after(scenario, word)).map(Partition::Dirichlet)
    } else if scenario.contains("pathological") {
        after(scenario, "pathological ").map(|n| Partition::Pathological(n as u64))
    } else if let Some(n) = after(scenario, "#label").or_else(|| after(scenario, "sort and partition (")) {
        Some(Partition::Pathological(n as u64))
    } else {
        (scenario.contains("iid") && !scenario.contains("noniid") && !scenario.contains("non-iid") && !scenario.contains("minus")
            || scenario.starts_with("homo,"))
        .then_some(Partition::Iid)
    }
}

/// The number that follows a word.
fn after(text: &str, word: &str) -> Option<f64> {
    let rest = &text[text.find(word)? + word.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

impl Setup {
    /// What of ours is not as published, in words: `rounds 50 instead of 2000`. What either side does not say is left out.
    #[must_use]
    pub fn differences(&self, published: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut say = |name: &str, ours: Option<String>, theirs: Option<String>, equal: bool| {
            if let (Some(ours), Some(theirs)) = (ours, theirs)
                && !equal
            {
                found.push(format!("{name} {ours} instead of {theirs}"));
            }
        };
        let same = |a: &Option<String>, b: &Option<String>| a.as_deref().map(plain) == b.as_deref().map(plain);
        // A part of a data set has its name, and in parentheses which part.
        let part = |name: &Option<String>| name.as_ref().and_then(|name| Some(name.split_once('(')?.1.to_owned()));
        let whole = part(&self.dataset).is_none() || part(&self.dataset) == part(&published.dataset);
        say("data", self.dataset.clone(), published.dataset.clone(), whole && same(&self.dataset, &published.dataset));
        say("model", self.model.clone(), published.model.clone(), same(&self.model, &published.model));
        if let (Some(ours), None, false) = (&self.dataset, &published.dataset, whole) {
            say("data", Some(ours.clone()), Some("a whole data set".to_owned()), false);
        }
        let partitions = (self.partition, published.partition);
        say("partition", partitions.0.map(|p| p.to_string()), partitions.1.map(|p| p.to_string()), partitions.0 == partitions.1);
        for (name, ours, theirs) in [
            ("clients", self.clients, published.clients),
            ("rounds", self.rounds, published.rounds),
            ("batch size", self.batch_size, published.batch_size),
            ("local epochs", self.local_epochs, published.local_epochs),
            ("trials", self.trials, published.trials),
        ] {
            say(name, ours.map(|n| n.to_string()), theirs.map(|n| n.to_string()), ours == theirs);
        }
        for (name, ours, theirs) in
            [("learning rate", self.learning_rate, published.learning_rate), ("join ratio", self.join_ratio, published.join_ratio)]
        {
            say(name, ours.map(|n| n.to_string()), theirs.map(|n| n.to_string()), ours == theirs);
        }
        say("optimizer", self.optimizer.clone(), published.optimizer.clone(), same(&self.optimizer, &published.optimizer));
        found
    }

    /// Whether a published number may stand beside ours: the same data set, partition and, where both are known, model.
    #[must_use]
    pub fn fits(&self, published: &Self) -> bool {
        self.unfit(published).is_empty()
    }

    /// Why a published number may not stand beside ours, in words: `data mnist instead of Cifar100`.
    #[must_use]
    pub fn unfit(&self, published: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, ours, theirs) in [("data", &self.dataset, &published.dataset), ("model", &self.model, &published.model)] {
            if let (Some(ours), Some(theirs)) = (ours, theirs)
                && plain(ours) != plain(theirs)
            {
                found.push(format!("{name} {ours} instead of {theirs}"));
            }
        }
        match (self.partition, published.partition) {
            (Some(ours), Some(theirs)) if ours != theirs => found.push(format!("partition {ours} instead of {theirs}")),
            (Some(ours), None) => found.push(format!("partition {ours}, while its scenario names none of iid, dirichlet, pathological")),
            (None, Some(theirs)) => found.push(format!("a partition of another kind instead of {theirs}")),
            _ => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_thing_are_one() {
        assert_eq!(
            [plain("Per-FedAvg"), plain("FMNIST"), plain("FedDistill"), plain("FedProx (mu=0.01)")],
            ["perfedavg", "fashionmnist", "fd", "fedprox"]
        );
    }

    #[test]
    fn differences_are_said_in_words() {
        let published = Setup { dataset: Some("Fashion-MNIST".into()), rounds: Some(2000), trials: Some(3), ..Setup::default() };
        let ours = Setup { dataset: Some("fashion-mnist".into()), rounds: Some(50), batch_size: Some(10), ..Setup::default() };
        assert_eq!(ours.differences(&published), ["rounds 50 instead of 2000"]);
        assert!(ours.fits(&published));
        let part = Setup { dataset: Some("fashion-mnist (first 1500)".into()), ..Setup::default() };
        assert_eq!(part.differences(&published), ["data fashion-mnist (first 1500) instead of Fashion-MNIST"]);
        assert_eq!(part.differences(&Setup::default()), ["data fashion-mnist (first 1500) instead of a whole data set"]);
        assert!(!Setup { dataset: Some("mnist".into()), ..Setup::default() }.fits(&published));
    }

    #[test]
    fn scenarios_of_every_table() {
        for (text, want) in [
            ("pathological 10/100 classes, n=20", Some(Partition::Pathological(10))),
            ("dirichlet beta=0.01, n=20", Some(Partition::Dirichlet(0.01))),
            ("dirichlet (0.5)", Some(Partition::Dirichlet(0.5))),
            ("noniid-labeldir with beta=0.1, n=10, sample=1, rounds=100", Some(Partition::Dirichlet(0.1))),
            ("noniid-#label2, n=10, sample=1, rounds=50", Some(Partition::Pathological(2))),
            ("sort and partition (3)", Some(Partition::Pathological(3))),
            ("iid, n=10", Some(Partition::Iid)),
            ("homo, n=100, sample=0.1, rounds=500", Some(Partition::Iid)),
            ("iid minus lda alpha=0.5", Some(Partition::Dirichlet(0.5))),
            ("non-iid natural", None),
        ] {
            assert_eq!(partition(text), want, "{text}");
        }
    }
}
