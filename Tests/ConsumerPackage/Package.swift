// swift-tools-version: 6.3

import PackageDescription

/// The client, and nothing else of the repository.
let sanguine = Target.Dependency.product(name: "Sanguine", package: "sanguine")

/// An app's package: it links the client and nothing else of the repository.
///
/// `Scripts/check-consumer.sh` creates the repository that this package depends on, builds it, and
/// checks what was resolved for it. The complete files of guides are targets of this package, each
/// of which imports only what its guide says. The targets for a server and for an app's tests exist
/// only if their traits are enabled.
let trait = Context.environment["CONSUMER_TRAIT"]

/// A product of the repository that needs a trait.
func product(_ name: String) -> Target.Dependency { .product(name: name, package: "sanguine") }

let withTrait: [Target] =
    trait == nil
    ? []
    : [
        .executableTarget(
            name: "OwnServer",
            dependencies: [product("SanguineServer"), product("SanguineSQLite")]
        ),
        .testTarget(
            name: "AppTests",
            dependencies: [sanguine, product("SanguineTesting")],
            path: "Sources/AppTests"
        ),
    ]

let package = Package(
    name: "consumer",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(
            url: "file://\(Context.packageDirectory)/../../.build-consumer/repository/sanguine",
            from: "1.0.0",
            traits: trait.map { [.init(name: $0)] } ?? [.defaults]
        )
    ],
    targets: [
        .executableTarget(name: "Consumer", dependencies: [sanguine]),
        .target(name: "ExistingAPI", dependencies: [sanguine]),
        .executableTarget(name: "RecordsFromNothing", dependencies: [sanguine]),
        .target(name: "OwnServerApp", dependencies: [sanguine]),
        .target(name: "HandWritten"),
        .target(name: "MovedHere", dependencies: [sanguine]),
    ] + withTrait
)
