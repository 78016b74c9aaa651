//! Compiles the wire types with a compiler written in Rust: no protoc on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=roomring");
    let files = protox::compile(["roomring/v1/node.proto"], ["."])?;
    // Bodies and blobs are shared slices of what was received, not copies.
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
