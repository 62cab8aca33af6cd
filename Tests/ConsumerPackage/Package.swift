// swift-tools-version: 6.3

import PackageDescription

/// The client, and nothing else of the repository.
let sanguine = Target.Dependency.product(name: "Sanguine", package: "sanguine")

/// An app's package: it links the client and nothing else of the repository.
///
/// `Scripts/check-consumer.sh` makes the repository that it depends on, builds it, and looks at
/// what was resolved for it. The files that guides show whole are targets of it, each of which
/// imports what its guide says and no more.
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
        .executableTarget(name: "Consumer", dependencies: [sanguine]),
        .target(name: "ExistingAPI", dependencies: [sanguine]),
        .executableTarget(name: "RecordsFromNothing", dependencies: [sanguine]),
        .target(name: "HandWritten"),
        .target(name: "MovedHere", dependencies: [sanguine]),
    ]
)
