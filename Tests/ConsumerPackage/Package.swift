// swift-tools-version: 6.3

import PackageDescription

/// An app's package, as small as can be: it links the client and nothing else of the repository.
///
/// `Scripts/check-consumer.sh` makes the repository that it depends on, builds it, and looks at
/// what was resolved for it.
let package = Package(
    name: "consumer",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(
            url: "file://\(Context.packageDirectory)/../../.build-consumer/repository/sanguine",
            from: "1.0.0",
            traits: Context.environment["CONSUMER_TRAIT"].map { [.init(name: $0)] } ?? [.defaults]
        )
    ],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [.product(name: "Sanguine", package: "sanguine")]
        )
    ]
)
