// swift-tools-version: 6.3
// 6.3: raw identifiers for tests, traits on dependencies, warnings as errors per target.

import PackageDescription

/// Strict for every target: Swift 6 mode is the tools version's default, and the rest is said here.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),  // `public import` shows the surface.
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// Whether an app depends on this package: then SwiftPM reads the manifest from a repository, or
/// has checked it out.
let isDependency =
    Context.packageDirectory == "/"
    || Context.packageDirectory.split(separator: "/").dropLast().last == "checkouts"

/// Declares a dependency that an app with only the client neither resolves nor builds.
func server(_ product: String, _ package: String) -> Target.Dependency {
    .product(name: product, package: package, condition: .when(traits: ["Server"]))
}

/// Declares a dependency that is resolved only if an app's tests use the authority in memory.
func testKit(_ product: String, _ package: String) -> Target.Dependency {
    .product(name: product, package: package, condition: .when(traits: ["TestKit"]))
}

/// Declares the part of SwiftUI that is used, for systems without SwiftUI.
let swiftUIStandIn = Target.Dependency.target(
    name: "SwiftUIStandIn",
    condition: .when(platforms: [.linux])
)

/// The plugin that renders the documentation; included only on request, so that no app resolves it.
let documentation: [Package.Dependency] =
    Context.environment["SANGUINE_DOCUMENTATION"] == nil
    ? [] : [.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0")]

let package = Package(
    name: "sanguine",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "Sanguine", targets: ["Sanguine"]),
        .library(name: "SanguineUI", targets: ["SanguineUI"]),
        .library(name: "SanguineModel", targets: ["SanguineModel"]),
        .library(name: "SanguineTesting", targets: ["SanguineTesting"]),
        .library(name: "SanguineAuthority", targets: ["SanguineAuthority"]),
        .library(name: "SanguineServer", targets: ["SanguineServer"]),
        .library(name: "SanguineSQLite", targets: ["SanguineSQLite"]),
        .executable(name: "sanguine", targets: ["SanguineCommand"]),
    ],
    traits: [
        // A checkout builds everything; a dependency builds the client unless it asks for more.
        .default(enabledTraits: isDependency ? [] : ["Server"]),
        .trait(
            name: "Server",
            description: "SanguineServer, SanguineSQLite and the command 'sanguine'.",
            enabledTraits: ["TestKit"]
        ),
        .trait(
            name: "TestKit",
            description: "SanguineTesting, and SanguineAuthority with it."
        ),
    ],
    dependencies: [
        // The client's, and no more: what an app links.
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        // The authority's.
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.15.0"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.5.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        // The command's.
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(
            url: "https://github.com/apple/swift-configuration",
            from: "1.4.0",
            traits: ["YAML"]
        ),
    ] + documentation,
    targets: [
        // Shared by client and server: identifiers, amounts, functions, problem codes, messages.
        .target(name: "SanguineModel", swiftSettings: strict),
        // Readers of images and videos of unknown origin: pure functions of bytes.
        .target(name: "SanguineMedia", swiftSettings: strict),

        // The client.
        .target(
            name: "Sanguine",
            dependencies: [
                "SanguineMedia",
                "SanguineModel",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "HeapModule", package: "swift-collections"),
                .product(name: "OrderedCollections", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        // The client in SwiftUI's views. Without SwiftUI, they are compiled and tested with a
        // stand-in.
        .target(
            name: "SanguineUI",
            dependencies: ["Sanguine", swiftUIStandIn],
            swiftSettings: strict
        ),

        // The server's decisions, pure, and the storage protocol that they need.
        .target(
            name: "SanguineAuthority",
            dependencies: [
                "SanguineMedia",
                "SanguineModel",
                .product(name: "HeapModule", package: "swift-collections"),
                .product(name: "OrderedCollections", package: "swift-collections"),
                testKit("Crypto", "swift-crypto"),
                testKit("CryptoExtras", "swift-crypto"),
                testKit("JWTKit", "jwt-kit"),
                testKit("SwiftASN1", "swift-asn1"),
                testKit("X509", "swift-certificates"),
            ],
            swiftSettings: strict
        ),

        // The public test kit: manual clocks, the authority in memory, networks that fail.
        .target(
            name: "SanguineTesting",
            dependencies: [
                "Sanguine",
                "SanguineAuthority",
                "SanguineModel",
            ],
            swiftSettings: strict
        ),

        // The embedded driver.
        .target(
            name: "SanguineSQLite",
            dependencies: [
                "SanguineAuthority",
                "SanguineModel",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: strict
        ),

        // The system's libvips, which decodes images: LGPL, linked dynamically.
        .systemLibrary(
            name: "SystemVips",
            pkgConfig: "vips",
            providers: [.apt(["libvips-dev"]), .brew(["vips"])]
        ),
        // The calls of libvips, in C, because most of its functions are variadic.
        .target(name: "SanguineVips", dependencies: ["SystemVips"]),
        // Images on the server: their facts, removal of metadata, thumbnails.
        .target(
            name: "SanguineImages",
            dependencies: ["SanguineAuthority", "SanguineVips"],
            swiftSettings: strict
        ),

        // The system's zlib, which compresses answers.
        .systemLibrary(name: "SystemZlib"),
        // HTTP, functions, jobs, metrics; no SQL, no driver.
        .target(
            name: "SanguineServer",
            dependencies: [
                "SanguineAuthority",
                "SanguineMedia",
                "SanguineModel",
                server("Hummingbird", "hummingbird"),
                server("HummingbirdCore", "hummingbird"),
                server("HummingbirdHTTP2", "hummingbird"),
                server("HTTPTypes", "swift-http-types"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOHTTP2", "swift-nio-http2"),
                server("NIOPosix", "swift-nio"),
                server("NIOTLS", "swift-nio"),
                server("NIOHTTPCompression", "swift-nio-extras"),
                server("NIOHTTPTypes", "swift-nio-extras"),
                server("NIOHTTPTypesHTTP1", "swift-nio-extras"),
                server("NIOSSL", "swift-nio-ssl"),
                server("AsyncHTTPClient", "async-http-client"),
                testKit("Crypto", "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                server("Metrics", "swift-metrics"),
                server("CoreMetrics", "swift-metrics"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                server("UnixSignals", "swift-service-lifecycle"),
                server("SystemPackage", "swift-system"),
                .target(name: "SanguineImages", condition: .when(traits: ["Server"])),
                .target(name: "SystemZlib", condition: .when(traits: ["Server"])),
            ],
            resources: [.embedInCode("openapi.json")],
            swiftSettings: strict
        ),

        // The `sanguine` executable: arguments and wiring only.
        .executableTarget(
            name: "SanguineCommand",
            dependencies: [
                "Sanguine",
                "SanguineAuthority",
                "SanguineModel",
                "SanguineServer",
                "SanguineSQLite",
                "SanguineTesting",
                server("ArgumentParser", "swift-argument-parser"),
                server("Configuration", "swift-configuration"),
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
                server("SystemPackage", "swift-system"),
                .product(name: "Logging", package: "swift-log"),
                server("Metrics", "swift-metrics"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOSSL", "swift-nio-ssl"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                server("UnixSignals", "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),

        // An executable and never a product, so that it shares the release build.
        .executableTarget(
            name: "Benchmarks",
            dependencies: [
                "HabitsApp",
                "HabitsModel",
                "HabitsServer",
                "HostileUpstream",
                "Sanguine",
                "SanguineAuthority",
                "SanguineImages",
                "SanguineModel",
                "SanguineServer",
                "SanguineSQLite",
                .product(name: "GRDB", package: "GRDB.swift"),
                server("ArgumentParser", "swift-argument-parser"),
                server("AsyncHTTPClient", "async-http-client"),
                server("HTTPTypes", "swift-http-types"),
                server("Hummingbird", "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            path: "Benchmarks",
            swiftSettings: strict
        ),

        // Devices, an authority and faulty networks between them, reproduced by a seed.
        .target(
            name: "Simulation",
            dependencies: [
                "Sanguine",
                "SanguineAuthority",
                "SanguineModel",
                "SanguineTesting",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "OrderedCollections", package: "swift-collections"),
            ],
            path: "Tests/Simulation",
            swiftSettings: strict
        ),
        // `make simulate`: many seeds, in a release build.
        .executableTarget(
            name: "Simulate",
            dependencies: [
                "Sanguine",
                "SanguineAuthority",
                "SanguineSQLite",
                "Simulation",
                server("ArgumentParser", "swift-argument-parser"),
            ],
            path: "Tests/Simulate",
            swiftSettings: strict
        ),
        // `make fuzz`: sends malformed requests to a real server in a release build.
        .executableTarget(
            name: "Fuzz",
            dependencies: [
                "SanguineModel",
                "SanguineTesting",
                server("ArgumentParser", "swift-argument-parser"),
                server("NIOCore", "swift-nio"),
                server("NIOPosix", "swift-nio"),
            ],
            path: "Tests/Fuzz",
            swiftSettings: strict
        ),
        // Helpers of our own tests: limits of time and of concurrency, sample files, processes.
        .target(
            name: "TestSupport",
            dependencies: [
                "Sanguine", "SanguineAuthority", "SanguineModel", "SanguineTesting",
                testKit("Crypto", "swift-crypto"),
                testKit("SwiftASN1", "swift-asn1"),
                testKit("X509", "swift-certificates"),
            ],
            path: "Tests/TestSupport",
            swiftSettings: strict
        ),
        // A language model that breaks in every way, and keeps its own bill.
        .target(
            name: "HostileUpstream",
            dependencies: [
                "SanguineAuthority",
                "SanguineModel",
                "SanguineTesting",
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
            ],
            path: "Tests/HostileUpstream",
            swiftSettings: strict
        ),
        // SwiftUI's declarations, as far as they are used, for systems without it; never a product.
        .target(name: "SwiftUIStandIn", path: "Tests/SwiftUIStandIn", swiftSettings: strict),
        .testTarget(
            name: "SanguineUITests",
            dependencies: [
                "Sanguine",
                "SanguineModel",
                "SanguineTesting",
                "SanguineUI",
                swiftUIStandIn,
                "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "Sanguine",
                "SanguineAuthority",
                "SanguineModel",
                "Simulate",
                "Simulation",
                "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SanguineModelTests",
            dependencies: [
                "SanguineModel",
                "SanguineTesting",
                "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SanguineMediaTests",
            dependencies: ["Fuzz", "SanguineMedia", "SanguineTesting", "TestSupport"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SanguineTests",
            dependencies: [
                "Sanguine",
                "SanguineAuthority",
                "SanguineMedia",
                "SanguineModel",
                "SanguineTesting",
                "TestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SanguineAuthorityTests",
            dependencies: [
                "SanguineAuthority",
                "SanguineMedia",
                "SanguineModel",
                "SanguineTesting",
                "TestSupport",
                testKit("Crypto", "swift-crypto"),
                testKit("JWTKit", "jwt-kit"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SanguineSQLiteTests",
            dependencies: [
                "SanguineSQLite",
                "SanguineAuthority",
                "SanguineModel",
                "SanguineTesting",
                "TestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SanguineImagesTests",
            dependencies: [
                "SanguineAuthority", "SanguineImages", "SanguineTesting", "TestSupport",
            ],
            swiftSettings: strict
        ),
        // The contract of all storage drivers.
        .testTarget(
            name: "StorageContractTests",
            dependencies: [
                "SanguineAuthority",
                "SanguineModel",
                "SanguineSQLite",
                "SanguineServer",
                "SanguineTesting",
                "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SanguineServerTests",
            dependencies: [
                "Fuzz",
                "HostileUpstream",
                "SanguineServer",
                "SanguineAuthority",
                "SanguineMedia",
                "SanguineModel",
                "SanguineTesting",
                "TestSupport",
                server("Hummingbird", "hummingbird"),
                server("HTTPTypes", "swift-http-types"),
                server("AsyncHTTPClient", "async-http-client"),
                server("NIOEmbedded", "swift-nio"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOSSL", "swift-nio-ssl"),
                server("CoreMetrics", "swift-metrics"),
                .target(name: "SystemZlib", condition: .when(traits: ["Server"])),
                .product(name: "Logging", package: "swift-log"),
                testKit("Crypto", "swift-crypto"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SanguineCommandTests",
            dependencies: [
                "Sanguine",
                "SanguineAuthority",
                "SanguineCommand",
                "SanguineServer",
                "SanguineSQLite",
                "SanguineModel",
                "SanguineTesting",
                "TestSupport",
                server("ArgumentParser", "swift-argument-parser"),
            ],
            swiftSettings: strict
        ),
        // Both ends over loopback, and the real executable under kill -9.
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "HostileUpstream",
                "Sanguine",
                "SanguineTesting",
                "SanguineAuthority",
                "SanguineModel",
                "SanguineServer",
                "SanguineSQLite",
                "SanguineCommand",
                "TestSupport",
                server("AsyncHTTPClient", "async-http-client"),
                .product(name: "GRDB", package: "GRDB.swift"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                .product(name: "Logging", package: "swift-log"),
            ],
            // Folders that an earlier version made.
            resources: [.copy("Resources/old-folders.tar.gz")],
            swiftSettings: strict
        ),
        // The samples and the numbers of the documentation, so that they compile and agree.
        .testTarget(
            name: "SnippetTests",
            dependencies: [
                "Sanguine",
                "SanguineAuthority",
                "SanguineImages",
                "SanguineMedia",
                "SanguineModel",
                "SanguineSQLite",
                "SanguineServer",
                "SanguineTesting",
                "SanguineUI",
                swiftUIStandIn,
                "TestSupport",
                .product(name: "Logging", package: "swift-log"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                server("UnixSignals", "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        // The program of the guide to a server of one's own: it links what the guide says.
        .executableTarget(
            name: "OwnServer",
            dependencies: ["SanguineServer", "SanguineSQLite"],
            path: "Tests/ConsumerPackage/Sources/OwnServer",
            swiftSettings: strict
        ),
        // Helpers of the examples' command-line interfaces.
        .target(
            name: "ExampleTerminal",
            dependencies: [
                "Sanguine",
                "SanguineServer",
                server("ArgumentParser", "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Terminal",
            swiftSettings: strict
        ),
        // The habit tracker of the examples: client, server, a command-line interface, and tests.
        .target(
            name: "HabitsModel",
            dependencies: ["SanguineModel"],
            path: "Examples/Habits/Model",
            swiftSettings: strict
        ),
        .target(
            name: "HabitsServer",
            dependencies: ["HabitsModel", "SanguineSQLite", "SanguineServer"],
            path: "Examples/Habits/Server",
            swiftSettings: strict
        ),
        .target(
            name: "HabitsApp",
            dependencies: ["HabitsModel", "Sanguine"],
            path: "Examples/Habits/App",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "Habits",
            dependencies: [
                "HabitsApp",
                "HabitsModel",
                "HabitsServer",
                "ExampleTerminal",
                "Sanguine",
                "SanguineServer",
                server("ArgumentParser", "swift-argument-parser"),
            ],
            path: "Examples/Habits/Tool",
            swiftSettings: strict
        ),
        .testTarget(
            name: "HabitsTests",
            dependencies: [
                "Habits",
                "HabitsApp",
                "HabitsModel",
                "HabitsServer",
                "Sanguine",
                "SanguineModel",
                "SanguineServer",
                "SanguineTesting",
                "TestSupport",
            ],
            path: "Examples/Habits/Tests",
            swiftSettings: strict
        ),
        // The assistant of the examples: client, server, a command-line interface, and tests.
        .target(
            name: "AssistantModel",
            dependencies: ["SanguineModel"],
            path: "Examples/Assistant/Model",
            swiftSettings: strict
        ),
        .target(
            name: "AssistantServer",
            dependencies: [
                "AssistantModel",
                "SanguineSQLite",
                "SanguineServer",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Assistant/Server",
            swiftSettings: strict
        ),
        .target(
            name: "AssistantApp",
            dependencies: ["AssistantModel", "Sanguine"],
            path: "Examples/Assistant/App",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "Assistant",
            dependencies: [
                "AssistantApp",
                "AssistantModel",
                "AssistantServer",
                "ExampleTerminal",
                "Sanguine",
                "SanguineServer",
                server("ArgumentParser", "swift-argument-parser"),
            ],
            path: "Examples/Assistant/Tool",
            swiftSettings: strict
        ),
        .testTarget(
            name: "AssistantTests",
            dependencies: [
                "Assistant",
                "AssistantApp",
                "AssistantModel",
                "AssistantServer",
                "ExampleTerminal",
                "Sanguine",
                "SanguineAuthority",
                "SanguineModel",
                "SanguineServer",
                "SanguineTesting",
                "TestSupport",
            ],
            path: "Examples/Assistant/Tests",
            swiftSettings: strict
        ),
        // The fortune teller of the examples: guests with a daily quota, and their registration.
        .target(
            name: "ReadingsModel",
            dependencies: ["SanguineModel"],
            path: "Examples/Readings/Model",
            swiftSettings: strict
        ),
        .target(
            name: "ReadingsServer",
            dependencies: [
                "ReadingsModel",
                "SanguineSQLite",
                "SanguineServer",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Readings/Server",
            swiftSettings: strict
        ),
        .target(
            name: "ReadingsApp",
            dependencies: ["ReadingsModel", "Sanguine"],
            path: "Examples/Readings/App",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "Readings",
            dependencies: [
                "ReadingsApp",
                "ReadingsModel",
                "ReadingsServer",
                "ExampleTerminal",
                "Sanguine",
                "SanguineServer",
                server("ArgumentParser", "swift-argument-parser"),
            ],
            path: "Examples/Readings/Tool",
            swiftSettings: strict
        ),
        .testTarget(
            name: "ReadingsTests",
            dependencies: [
                "HostileUpstream",
                "Readings",
                "ReadingsApp",
                "ReadingsModel",
                "ReadingsServer",
                "ExampleTerminal",
                "Sanguine",
                "SanguineModel",
                "SanguineServer",
                "SanguineTesting",
                "TestSupport",
            ],
            path: "Examples/Readings/Tests",
            swiftSettings: strict
        ),
        // The social network of the examples: pictures of all users, likes, replies and follows.
        .target(
            name: "FeedModel",
            dependencies: ["SanguineModel"],
            path: "Examples/Feed/Model",
            swiftSettings: strict
        ),
        .target(
            name: "FeedServer",
            dependencies: [
                "FeedModel",
                "SanguineSQLite",
                "SanguineServer",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Feed/Server",
            swiftSettings: strict
        ),
        .target(
            name: "FeedApp",
            dependencies: ["FeedModel", "Sanguine"],
            path: "Examples/Feed/App",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "Feed",
            dependencies: [
                "FeedApp",
                "FeedModel",
                "FeedServer",
                "ExampleTerminal",
                "Sanguine",
                "SanguineServer",
                server("ArgumentParser", "swift-argument-parser"),
            ],
            path: "Examples/Feed/Tool",
            swiftSettings: strict
        ),
        .testTarget(
            name: "FeedTests",
            dependencies: [
                "Feed",
                "FeedApp",
                "FeedModel",
                "FeedServer",
                "ExampleTerminal",
                "Sanguine",
                "SanguineCommand",
                "SanguineModel",
                "SanguineServer",
                "SanguineTesting",
                "TestSupport",
            ],
            path: "Examples/Feed/Tests",
            swiftSettings: strict
        ),
        // The astrology app of the examples: the positions that it computes, and what they mean.
        .target(name: "AlmanacSky", path: "Examples/Almanac/Sky", swiftSettings: strict),
        .testTarget(
            name: "AlmanacSkyTests",
            dependencies: ["AlmanacSky", "TestSupport"],
            path: "Examples/Almanac/Tests/SkyTests",
            exclude: ["references.py"],
            swiftSettings: strict
        ),
        .target(
            name: "AlmanacModel",
            dependencies: ["AlmanacSky", "SanguineModel"],
            path: "Examples/Almanac/Model",
            swiftSettings: strict
        ),
        .target(
            name: "AlmanacServer",
            dependencies: [
                "AlmanacModel",
                "AlmanacSky",
                "SanguineSQLite",
                "SanguineServer",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Almanac/Server",
            swiftSettings: strict
        ),
        .target(
            name: "AlmanacApp",
            dependencies: ["AlmanacModel", "AlmanacSky", "Sanguine"],
            path: "Examples/Almanac/App",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "Almanac",
            dependencies: [
                "AlmanacApp",
                "AlmanacModel",
                "AlmanacServer",
                "AlmanacSky",
                "ExampleTerminal",
                "Sanguine",
                "SanguineServer",
                server("ArgumentParser", "swift-argument-parser"),
            ],
            path: "Examples/Almanac/Tool",
            swiftSettings: strict
        ),
        .testTarget(
            name: "AlmanacTests",
            dependencies: [
                "Almanac",
                "AlmanacApp",
                "AlmanacModel",
                "AlmanacServer",
                "AlmanacSky",
                "ExampleTerminal",
                "Sanguine",
                "SanguineModel",
                "SanguineServer",
                "SanguineTesting",
                "TestSupport",
            ],
            path: "Examples/Almanac/Tests",
            exclude: ["SkyTests"],
            swiftSettings: strict
        ),
        // An app on a plain REST backend, and that backend.
        .target(
            name: "NotebookBackend",
            dependencies: [
                server("Hummingbird", "hummingbird"),
                server("HTTPTypes", "swift-http-types"),
                server("NIOCore", "swift-nio"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Notebook/Backend",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "Notebook",
            dependencies: ["NotebookBackend", "Sanguine"],
            path: "Examples/Notebook/App",
            swiftSettings: strict
        ),
        .testTarget(
            name: "NotebookTests",
            dependencies: [
                "Notebook", "NotebookBackend", "Sanguine", "SanguineTesting", "TestSupport",
            ],
            path: "Examples/Notebook/Tests",
            swiftSettings: strict
        ),
        // The house style, as a test.
        .testTarget(name: "TidyTests", swiftSettings: strict),
    ]
)

// `make sanitize`: the thread sanitizer does not know the standard library's mutex on Linux, so a
// mutex on `pthread_mutex_t` hides it in each of our targets.
if Context.environment["SANGUINE_THREAD_SANITIZER"] != nil {
    for target in package.targets where target.type != .system && target.name != "SanguineVips" {
        target.plugins = [.plugin(name: "CopyMutex")]
    }
    package.targets.append(
        .plugin(name: "CopyMutex", capability: .buildTool(), path: "Tests/Sanitizers/CopyMutex")
    )
}
