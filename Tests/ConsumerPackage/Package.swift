// swift-tools-version: 6.3

import PackageDescription

/// An app's package, as small as can be: it links the client and nothing else of the repository.
///
/// `Scripts/check-consumer.sh` builds it and looks at what was built for it.
let package = Package(
    name: "consumer",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "sanguine", path: "../..")],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [.product(name: "Sanguine", package: "sanguine")]
        )
    ]
)
