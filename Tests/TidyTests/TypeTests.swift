import Testing

/// A type is a room: its state is private, and only few files extend it.
///
/// `Documentation/Decisions/0120-a-type-keeps-its-state-in-its-file.md` has the reasons.
@Suite("Types", .timeLimit(.minutes(15)))
struct TypeTests {
    /// The maximum number of files that extend a type, in addition to the one that declares it.
    private static let mostFiles = 3

    /// The types whose extensions in other files use their stored state, each with the reason.
    ///
    /// Do not add one: move what the extension does into its own type.
    private static let openTypes = [
        "Sanguine.Entries": "One table and one lock; effects and storage hide types of their own.",
        "Sanguine.ListState": "One state machine; the completion of loads hides a type of its own.",
        "Sanguine.OutboxEngine": "One lock; sending hides a type of its own.",
    ]

    /// The types that more files extend, each with the reason.
    private static let extendedTypes = [
        "Sanguine.SanguineClient": "The facade: one file for each kind of query, calls and users.",
        "SanguineAuthority.Authority": "The facade of the server: one file for each subject.",
        "SanguineAuthority.Endpoints": "The routes: one file for each subject.",
    ]

    private static let whole = Result { try TypeMap(of: try Repository.files()) }

    @Test func `the types of the sources are found`() throws {
        let map = try Self.whole.get()
        #expect(map.types.count > 500)
        #expect(map.types["Sanguine.Entries"]?.count == 1)
        #expect(map.types["Sanguine.Entries"]?.first?.openState.contains("guarded") == true)
    }

    @Test func `an extension in another file does not use the state of its type`() throws {
        let map = try Self.whole.get()
        var open: Set<String> = []
        for type in map.types.keys.sorted() {
            let uses = try map.usesOfState(of: type)
            guard !uses.isEmpty else { continue }
            open.insert(type)
            guard Self.openTypes[type] == nil else { continue }
            for (path, names) in uses.sorted(by: { $0.key < $1.key }) {
                Issue.record(
                    """
                    \(path) uses \(names.sorted().joined(separator: ", ")) of \(type). Make the \
                    state private, and move the extension into the type's file or into a type of \
                    its own that asks a question.
                    """
                )
            }
        }
        let needless = Set(Self.openTypes.keys).subtracting(open)
        #expect(needless.sorted() == [], "Remove these from the exceptions.")
    }

    @Test func `at most three files extend a type`() throws {
        let map = try Self.whole.get()
        var extended: Set<String> = []
        for type in map.types.keys.sorted() {
            let files = map.extendingFiles(of: type)
            guard files.count > Self.mostFiles else { continue }
            extended.insert(type)
            #expect(
                Self.extendedTypes[type] != nil,
                """
                \(files.sorted().joined(separator: ", ")) extend \(type). A fourth one hides a \
                second type: give it its own name and state.
                """
            )
        }
        let needless = Set(Self.extendedTypes.keys).subtracting(extended)
        #expect(needless.sorted() == [], "Remove these from the exceptions.")
    }

    // MARK: - Samples

    private static let engine = """
        final class Engine {
            private struct Guarded {
                var count = 0
            }

            static let shared = Engine()
            let guarded = Mutex(Guarded())
            var speed = 0
            private var heat = 0
            var isHot: Bool { heat > 9 }
            let name: String
        }

        """

    private static func map(_ texts: [String: String]) throws -> TypeMap {
        try TypeMap(of: texts.map { SourceFile("Sources/A/\($0.key).swift", $0.value) })
    }

    @Test func `open state is what varies or has a lock, and is not private`() throws {
        let map = try Self.map(["Engine": Self.engine])

        #expect(map.types["A.Engine"]?.first?.openState == ["guarded", "speed"])
    }

    @Test(arguments: [
        "guarded.withLock { $0.count += 1 }", "self.speed = 1", "use(speed)", "if speed > 1 {}",
    ])
    func `an extension that uses state is found`(statement: String) throws {
        let map = try Self.map([
            "Engine": Self.engine,
            "Engine+B": "extension Engine {\n    func b() {\n        \(statement)\n    }\n}\n",
        ])

        #expect(try map.usesOfState(of: "A.Engine").keys.sorted() == ["Sources/A/Engine+B.swift"])
    }

    @Test(arguments: [
        "use(other.speed)", "use(speed: 1)", "if isHot {}", "use(name)", "let a = \"speed\"",
        "use(Self.shared)", "use(speedLimit)",
    ])
    func `an extension that uses no state is not found`(statement: String) throws {
        let map = try Self.map([
            "Engine": Self.engine,
            "Engine+B": "extension Engine {\n    func b() {\n        \(statement)\n    }\n}\n",
        ])

        #expect(try map.usesOfState(of: "A.Engine").isEmpty)
    }

    @Test func `an extension in the type's own file may use its state`() throws {
        let own = "\nextension Engine {\n    func b() { speed = 1 }\n}\n"
        let map = try Self.map(["Engine": Self.engine + own])

        #expect(try map.usesOfState(of: "A.Engine").isEmpty)
    }

    @Test(arguments: [
        ("struct Point {\n    var x = 0\n}\n", "mutating func", true),
        ("struct Point {\n    var x = 0\n}\n", "func", false),
        ("struct Point {\n    public var x = 0\n}\n", "mutating func", false),
    ])
    func `only an extension that changes a value uses the value's state`(
        type: String,
        head: String,
        isUse: Bool
    ) throws {
        let map = try Self.map([
            "Point": type, "Point+B": "extension Point {\n    \(head) b() { _ = x }\n}\n",
        ])

        #expect(try map.usesOfState(of: "A.Point").isEmpty != isUse)
    }

    @Test func `files are counted that extend a type for others`() throws {
        let map = try Self.map([
            "Engine": Self.engine + "\nextension Engine {\n    func a() {}\n}\n",
            "B": "extension Engine {\n    func b() {}\n}\nextension Engine: P {}\n",
            "C": "extension Engine {\n    fileprivate func c() {}\n}\n",
            "D": "private extension Engine {\n    func d() {}\n}\n",
            "E": "extension Engine.Guarded {\n    func e() {}\n}\n",
        ])

        #expect(map.extendingFiles(of: "A.Engine") == ["Sources/A/B.swift"])
    }
}
