# Recipes for developers; `just` alone lists them.

_list:
    @just --list

# Everything that a change must pass
check:
    .ci/run

# Format, then look with clippy
lint:
    cargo fmt
    cargo clippy --locked --all-targets -- -D warnings

# Fast tests of the logic (the dev profile); numbers are tested with --release
test *ARGS:
    cargo test {{ARGS}}

# All tests as .ci/run runs them
test-release *ARGS:
    cargo test --locked --release {{ARGS}}

# Write the JSON Schema of pipeline files anew
schema:
    cargo run --release --quiet -- schema > schemas/pipeline.schema.json

# The quick start of the README
quickstart:
    cargo run --release -- run pipelines/quickstart.yaml

# A binary for others: fat LTO, without the paths of this machine
dist:
    RUSTFLAGS="--remap-path-prefix={{justfile_directory()}}=pflpipe" cargo build --locked --profile dist

# The API documentation
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --open
