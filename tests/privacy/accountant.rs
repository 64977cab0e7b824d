//! The accountant against Opacus and dp-accounting: `reference.json`, made by `make_reference.py` beside it.

use pflpipe::privacy::accountant::{calibrate, gaussian_epsilon};
use serde_json::Value;

fn rows(table: &str) -> Vec<Vec<f64>> {
    let all: Value = serde_json::from_str(include_str!("reference.json")).expect("valid JSON");
    let number = |value: &Value| value.as_f64().expect("a number");
    let row = |row: &Value| row.as_array().expect("a row").iter().map(number).collect();
    all[table]["rows"].as_array().expect("rows").iter().map(row).collect()
}

/// Within 1e-3, and for an epsilon of hundreds, which protects nobody, within a millionth of it.
fn equal(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() <= f64::max(1e-3, 1e-6 * theirs)
}

#[test]
fn epsilon_is_that_of_opacus() {
    let rows = rows("epsilons");
    assert_eq!(rows.len(), 945);
    for row in rows {
        let ours = gaussian_epsilon(row[0], row[1], row[2] as u64, row[3]);
        assert!(equal(ours, row[4]), "{ours} at {row:?}");
    }
}

#[test]
fn epsilon_is_that_of_dp_accounting_where_it_uses_the_same_orders() {
    let (mut same, mut other) = (0, 0);
    for row in rows("epsilons") {
        let ours = gaussian_epsilon(row[0], row[1], row[2] as u64, row[3]);
        // It leaves orders out, and says 0 where delta alone covers the release.
        let differs = row[5] > row[4] + 1e-3 || row[5] == 0.0;
        assert!(differs || equal(ours, row[5]), "{ours} at {row:?}");
        if differs { other += 1 } else { same += 1 }
    }
    assert!(same > 600 && other > 0, "{same} {other}");
}

#[test]
fn the_noise_for_an_epsilon_is_that_of_opacus() {
    for row in rows("noises") {
        let epsilon = |noise| gaussian_epsilon(row[0], noise, row[1] as u64, row[3]);
        let ours = calibrate(row[2], epsilon).expect("it can be reached");
        assert!((ours - row[4]).abs() <= 2e-6 * row[4], "{ours} at {row:?}");
        assert!(epsilon(ours) <= row[2]);
    }
}
