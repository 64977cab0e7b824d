//! The cheapest assignment of rows to columns, by shortest augmenting paths (Kuhn, Munkres).

/// For each row of the square matrix `cost` (n x n, row by row) the column that it is given, so that the sum is least.
///
/// Costs that are not finite count as very expensive. The time grows with the cube of n.
///
/// # Panics
/// When there are not n x n costs.
#[must_use]
pub fn assign(cost: &[f64], n: usize) -> Vec<usize> {
    assert_eq!(cost.len(), n * n, "n rows and columns have n x n costs");
    let price = |row: usize, column: usize| if cost[row * n + column].is_finite() { cost[row * n + column] } else { 1e300 };
    // Potentials of rows and columns; the row of each column; index n stands for the row that is being placed.
    let (mut of_row, mut of_column) = (vec![0.0; n], vec![0.0; n + 1]);
    let mut owner: Vec<Option<usize>> = vec![None; n + 1];
    for row in 0..n {
        owner[n] = Some(row);
        let mut column = n;
        let (mut shortest, mut from, mut seen) = (vec![f64::INFINITY; n], vec![n; n], vec![false; n + 1]);
        while let Some(placed) = owner[column] {
            seen[column] = true;
            let (mut delta, mut next) = (f64::INFINITY, n);
            for other in (0..n).filter(|c| !seen[*c]) {
                let slack = price(placed, other) - of_row[placed] - of_column[other];
                if slack < shortest[other] {
                    (shortest[other], from[other]) = (slack, column);
                }
                if shortest[other] < delta {
                    (delta, next) = (shortest[other], other);
                }
            }
            for other in 0..=n {
                if seen[other] {
                    if let Some(owner) = owner[other] {
                        of_row[owner] += delta;
                    }
                    of_column[other] -= delta;
                } else {
                    shortest[other] -= delta;
                }
            }
            column = next;
        }
        while column != n {
            owner[column] = owner[from[column]];
            column = from[column];
        }
    }
    let mut columns = vec![0; n];
    for (column, row) in owner[..n].iter().enumerate() {
        if let Some(row) = row {
            columns[*row] = column;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream, unit};

    #[test]
    fn it_is_the_cheapest_of_all_permutations() {
        let mut rng = stream(1, Purpose::Partition, 0, 0, 0);
        for n in 1..=5 {
            for _ in 0..20 {
                let cost: Vec<f64> = (0..n * n).map(|_| (unit(&mut rng) * 8.0).floor()).collect();
                let sum = |columns: &[usize]| columns.iter().enumerate().map(|(row, column)| cost[row * n + column]).sum::<f64>();
                let found = assign(&cost, n);
                let mut sorted = found.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..n).collect::<Vec<_>>());
                let mut least = f64::INFINITY;
                permutations(&mut (0..n).collect::<Vec<_>>(), 0, &mut |columns| least = least.min(sum(columns)));
                assert!((sum(&found) - least).abs() < 1e-9, "{cost:?}: {found:?}");
            }
        }
    }

    fn permutations(items: &mut Vec<usize>, from: usize, visit: &mut dyn FnMut(&[usize])) {
        if from == items.len() {
            return visit(items);
        }
        for i in from..items.len() {
            items.swap(from, i);
            permutations(items, from + 1, visit);
            items.swap(from, i);
        }
    }
}
