/// The modules that each target may import: the dependency rules of `ARCHITECTURE.md` as data.
///
/// The manifest lists the modules that a target can link, and this table the ones it may use. A
/// target without a row may import nothing.
enum ImportTable {
    enum Row: Sendable {
        case anything
        case only(Set<String>)

        func allows(_ module: String) -> Bool {
            switch self {
            case .anything: true
            case .only(let modules): modules.contains(module)
            }
        }
    }

    static let rows: [String: Row] = [
        "SanguineModel": .only(language),
        // Readers of unknown bytes: nothing else of the package.
        "SanguineMedia": .only(language),

        // The client: no server code, no NIO, no HTTP server, no cryptography but Apple's.
        "Sanguine": .only(
            language + systemCalls + platform + collections + [
                "CryptoKit", "DeviceCheck", "FoundationNetworking", "GRDB", "Logging",
                "SanguineMedia", "SanguineModel", "StoreKit",
            ]
        ),
        // Views: the client, and SwiftUI or its stand-in.
        "SanguineUI": .only(["Sanguine", "SwiftUI", "SwiftUIStandIn"]),
        "SanguineTesting": .only(
            language + collections + [
                "FoundationNetworking", "Sanguine", "SanguineAuthority", "SanguineModel",
            ]
        ),

        // Pure decisions: no network, no database, no log.
        "SanguineAuthority": .only(
            language + collections + [
                "Crypto", "CryptoExtras", "JWTKit", "SanguineMedia", "SanguineModel", "SwiftASN1",
                "X509",
            ]
        ),

        // Drivers: the decisions, and their own database.
        "SanguineSQLite": .only(
            language + systemCalls + collections + [
                "GRDB", "GRDBSQLite", "SanguineAuthority", "SanguineModel",
            ]
        ),

        // HTTP: no driver, no SQL, no client.
        "SanguineServer": .only(
            language + systemCalls + collections + [
                "AsyncHTTPClient", "CoreMetrics", "Crypto", "Dispatch", "HTTPTypes",
                "Hummingbird", "HummingbirdCore", "HummingbirdHTTP2", "Logging", "Metrics",
                "NIOCore", "NIOHTTP1", "NIOHTTP2", "NIOHTTPCompression", "NIOHTTPTypes",
                "NIOHTTPTypesHTTP1", "NIOPosix", "NIOSSL", "NIOTLS", "SanguineAuthority",
                "SanguineImages", "SanguineMedia", "SanguineModel",
                "ServiceLifecycle", "System", "SystemPackage", "SystemZlib",
                "UnixSignals",
            ]
        ),

        // Images: libvips, and the turns of accounts.
        "SanguineImages": .only(language + ["SanguineAuthority", "SanguineVips"]),
        // C.
        "SanguineVips": .only([]),

        // Module maps over headers of the system.
        "SystemVips": .only([]),
        "SystemZlib": .only([]),

        // Wiring, benchmarks and tests may import everything that the manifest lets them link.
        "SanguineCommand": .anything,
        "Benchmarks": .anything,
        "Simulation": .anything,
        "Simulate": .anything,
        "Fuzz": .anything,
        "TestSupport": .anything,
        "HostileUpstream": .anything,
        "SwiftUIStandIn": .only(language),
        "SanguineUITests": .anything,
        "SimulationTests": .anything,
        "SanguineMediaTests": .anything,
        "SanguineModelTests": .anything,
        "SanguineTests": .anything,
        "SanguineAuthorityTests": .anything,
        "SanguineSQLiteTests": .anything,
        "SanguineImagesTests": .anything,
        "StorageContractTests": .anything,
        "SanguineServerTests": .anything,
        "SanguineCommandTests": .anything,
        "EndToEndTests": .anything,
        "SnippetTests": .anything,
        // The examples import only what an app would.
        "AssistantModel": .only(["SanguineModel"]),
        "AssistantServer": .only([
            "AssistantModel", "Foundation", "Logging", "SanguineSQLite", "SanguineServer",
        ]),
        "AssistantApp": .only(["AssistantModel", "Observation", "Sanguine"]),
        "Assistant": .anything,
        "AssistantTests": .anything,
        "ExampleTerminal": .anything,
        "HabitsModel": .only(["SanguineModel"]),
        "HabitsServer": .only(["Foundation", "HabitsModel", "SanguineSQLite", "SanguineServer"]),
        "HabitsApp": .only(["Foundation", "HabitsModel", "Observation", "Sanguine"]),
        "Habits": .anything,
        "HabitsTests": .anything,
        "ReadingsModel": .only(["SanguineModel"]),
        "ReadingsServer": .only([
            "Foundation", "Logging", "ReadingsModel", "SanguineSQLite", "SanguineServer",
        ]),
        "ReadingsApp": .only(["Foundation", "Observation", "ReadingsModel", "Sanguine"]),
        "Readings": .anything,
        "ReadingsTests": .anything,
        "FeedModel": .only(["SanguineModel"]),
        "FeedServer": .only([
            "FeedModel", "Foundation", "Logging", "SanguineSQLite", "SanguineServer",
        ]),
        "FeedApp": .only(["FeedModel", "Foundation", "Observation", "Sanguine"]),
        "Feed": .anything,
        "FeedTests": .anything,
        "AlmanacSky": .only(["Foundation"]),
        "AlmanacSkyTests": .anything,
        "AlmanacModel": .only(["AlmanacSky", "SanguineModel"]),
        "AlmanacServer": .only([
            "AlmanacModel", "AlmanacSky", "Foundation", "Logging", "SanguineSQLite",
            "SanguineServer",
        ]),
        "AlmanacApp": .only([
            "AlmanacModel", "AlmanacSky", "Foundation", "Observation", "Sanguine",
        ]),
        "Almanac": .anything,
        "AlmanacTests": .anything,
        // The example with a plain REST backend, which does not depend on Sanguine.
        "NotebookBackend": .only(
            language + ["HTTPTypes", "Hummingbird", "Logging", "NIOCore"]
        ),
        "Notebook": .only(
            language + ["FoundationNetworking", "NotebookBackend", "Sanguine"]
        ),
        "NotebookTests": .anything,
        "OwnServer": .only(["Foundation", "SanguineSQLite", "SanguineServer"]),
        "TidyTests": .only(["Foundation", "Testing"]),
    ]

    /// Targets of examples by folder, if their names differ.
    static let examples = [
        "Examples/Terminal": "ExampleTerminal",
        "Examples/Notebook/App": "Notebook",
        "Examples/Notebook/Backend": "NotebookBackend",
        "Examples/Notebook/Tests": "NotebookTests",
    ]

    private static let language: Set = [
        "Foundation", "FoundationEssentials", "Observation", "Synchronization",
    ]

    private static let systemCalls: Set = ["Bionic", "Darwin", "Glibc", "Musl"]

    /// Modules of Apple's systems for a client, behind `#if canImport`.
    private static let platform: Set = [
        "AppKit", "CoreGraphics", "Dispatch", "ImageIO", "Network", "Security", "SwiftUI", "UIKit",
        "WatchKit", "os",
    ]

    private static let collections: Set = [
        "BitCollections", "Collections", "DequeModule", "HashTreeCollections", "HeapModule",
        "OrderedCollections",
    ]
}

extension Set<String> {
    /// Joins two groups of modules.
    fileprivate static func + (lhs: Self, rhs: Self) -> Self { lhs.union(rhs) }
}
