import Foundation

/// Rules about size and about dependencies.
extension Rule {
    /// The maximum number of lines in a source file.
    ///
    /// ``TypeTests`` is the rule for the size of types. This one finds files that were never split.
    static let fileLines = 1_000
    /// The limit of lines of a function, from its first to its last.
    ///
    /// A function must have fewer.
    static let functionLines = 60

    static let structure = [
        Rule(
            "file-length",
            remedy: "Look for the second type in it: \(fileLines) lines are the limit.",
            scope: .sourcesAndBenchmarks,
            broken: samples(in: "Sources/A/A.swift", String(repeating: "a\n", count: 1_000)),
            clean: samples(in: "Sources/A/A.swift", String(repeating: "a\n", count: 999))
        ) { file in
            file.text.count { $0 == "\n" } > fileLines ? [1] : []
        },
        Rule(
            "function-length",
            remedy: "Split the function: it must stay under \(functionLines) lines.",
            scope: .sourcesAndBenchmarks,
            broken: samples(
                in: "Sources/A/A.swift",
                function("func a()", lines: 60),
                function("public init(\n    b: () -> Void = {},\n    c: Int\n)", lines: 57),
                function("    var a: Int", lines: 60),
                function(
                    "@inlinable static func a<T>(_ b: T) async throws\n    -> T\nwhere T: B",
                    lines: 58
                )
            ),
            clean: samples(
                in: "Sources/A/A.swift",
                function("func a()", lines: 59),
                function("struct A", lines: 100),
                "protocol A {\n    func b()\n    func c() -> Int\n    init(d: Int)\n}\n"
                    + function("struct E", lines: 100),
                "let a = \"}\"  // func b() {\n" + function("enum A", lines: 100)
            )
        ) { file in
            try file.functions().filter { $0.count >= functionLines }.map(\.lowerBound)
        },
        Rule(
            "import",
            remedy: """
                The target may not import that module: reverse the dependency. If it must, change \
                the table in ImportTable.swift, the manifest and ARCHITECTURE.md together.
                """,
            scope: .swift,
            broken: [
                SourceFile("Sources/SanguineModel/A.swift", "import Logging\n"),
                SourceFile("Sources/Sanguine/A.swift", "public import NIOCore\n"),
                SourceFile("Sources/Sanguine/A.swift", "internal import struct Crypto.SHA256\n"),
                SourceFile("Sources/SanguineAuthority/B/A.swift", "@testable import Hummingbird\n"),
                SourceFile("Sources/SanguineAuthority/A.swift", "import FoundationNetworking\n"),
                SourceFile("Sources/SanguineServer/A.swift", "import GRDB\n"),
                SourceFile("Sources/SanguineServer/A.swift", "import Sanguine\n"),
                SourceFile("Sources/SanguineSQLite/A.swift", "import SanguineServer\n"),
                SourceFile("Sources/Unknown/A.swift", "import Foundation\n"),
                SourceFile("Examples/Notebook/Backend/A.swift", "import Sanguine\n"),
            ],
            clean: [
                SourceFile("Sources/SanguineModel/A.swift", "public import Foundation\n"),
                SourceFile("Sources/Sanguine/A.swift", "import GRDB\n// import NIOCore\n"),
                SourceFile("Sources/SanguineAuthority/A.swift", "import struct Crypto.SHA256\n"),
                SourceFile(
                    "Sources/SanguineCommand/A.swift",
                    "import Sanguine\nimport SanguineServer\n"
                ),
                SourceFile("Tests/EndToEndTests/A.swift", "@testable import Sanguine\n"),
                SourceFile("Examples/Notebook/App/A.swift", "import Sanguine\n"),
            ]
        ) { file in
            guard let target = file.target else { return [] }
            let known = ImportTable.rows[target] ?? .only([])
            return try file.imports().filter { !known.allows($0.module) }.map(\.line)
        },
        Rule(
            "reserved-name",
            remedy: """
                A framework that apps import together with the client has a type of this name, see \
                ReservedNames.swift: choose a more specific name.
                """,
            scope: .client,
            broken: [
                SourceFile("Sources/Sanguine/A.swift", "public struct Query<Value> {}\n"),
                SourceFile("Sources/SanguineModel/A.swift", "public protocol Record: B {}\n"),
                SourceFile("Sources/Sanguine/A.swift", "public final class Transaction {}\n"),
            ],
            clean: [
                SourceFile("Sources/Sanguine/A.swift", "public struct ValueQuery<Value> {}\n"),
                SourceFile("Sources/Sanguine/A.swift", "struct Query {}\n"),
                SourceFile("Sources/Sanguine/A.swift", "enum A {\n    public enum View {}\n}"),
                SourceFile("Sources/SanguineServer/A.swift", "public struct Query {}\n"),
            ]
        ) { file in
            let pattern = #"""
                ^public (?:final )?(?:class|struct|enum|protocol|actor|typealias) (\w+)
                """#
            return try file.matches(of: pattern, in: \.code)
                .filter { ReservedNames.all[$0.text] != nil }.map(\.line)
        },
    ]

    /// Returns a declaration with a body that has the given number of lines, including its last
    /// head line.
    private static func function(_ head: String, lines: Int) -> String {
        head + " {\n" + String(repeating: "    b()\n", count: lines - 2) + "}"
    }
}

extension SourceFile {
    /// Returns the imports: the line, and the module without its submodules.
    func imports() throws -> [(line: Int, module: String)] {
        let pattern = #"""
            ^[ \t]*(?:@\w+(?:\([^()]*\))?\s+)*\#
            (?:(?:public|package|internal|fileprivate|private)\s+)?\#
            import\s+(?:(?:struct|class|enum|protocol|typealias|func|let|var)\s+)?(\w+)
            """#
        return try matches(of: pattern, in: \.code).map { (line: $0.line, module: $0.text) }
    }

    /// Returns the lines of each test, from its `func`.
    func tests() throws -> [ClosedRange<Int>] {
        let lines = code.components(separatedBy: "\n").map { Array($0.utf8) }
        return try matches(of: #"@Test\b[\s\S]*?\bfunc\b"#, in: \.code).compactMap { match in
            let line = match.line + match.text.count { $0 == "\n" }
            return FunctionScanner(lines: lines[(line - 1)...]).lastLine().map { line...($0 + 1) }
        }
    }

    /// Returns the lines of each function, initializer, subscript and computed property.
    func functions() throws -> [ClosedRange<Int>] {
        let pattern = #"""
            ^[ \t]*(?:@\w+(?:\([^()\n]*\))?[ \t]+|[a-z]+(?:\(\w+\))?[ \t]+)*?\#
            (?:func\b|init[?]?[ \t]*[(<]|deinit\b|subscript[ \t]*[(<]|var\b)
            """#
        let lines = code.components(separatedBy: "\n").map { Array($0.utf8) }
        return try self.lines(matching: pattern, in: \.code).compactMap { line in
            FunctionScanner(lines: lines[(line - 1)...]).lastLine().map { line...($0 + 1) }
        }
    }
}

/// Finds the end of the function that starts on the first of the lines.
private struct FunctionScanner {
    /// Lines of code without literals and comments, by index in the file.
    let lines: ArraySlice<[UInt8]>

    /// Returns the index of the line with the brace that closes the body, or `nil` without a body.
    func lastLine() -> Int? {
        var parentheses = 0
        var braces = 0
        for (index, line) in zip(lines.indices, lines) {
            for byte in line {
                switch byte {
                case UInt8(ascii: "("), UInt8(ascii: "["): parentheses += 1
                case UInt8(ascii: ")"), UInt8(ascii: "]"): parentheses -= 1
                case UInt8(ascii: "{") where parentheses == 0 || braces > 0: braces += 1
                case UInt8(ascii: "}") where braces > 0:
                    braces -= 1
                    if braces == 0 { return index }
                default: break
                }
            }
            if braces == 0 && parentheses <= 0 && !headGoesOn(after: index) { return nil }
        }
        return nil
    }

    /// Whether a head without a brace continues on the next line, as `-> T`, `where` or `{` do.
    private func headGoesOn(after index: Int) -> Bool {
        guard index + 1 < lines.endIndex else { return false }
        let line = lines[index].reversed().drop { $0 == UInt8(ascii: " ") }
        if line.first == UInt8(ascii: ",") { return true }
        let next = lines[index + 1].drop { $0 == UInt8(ascii: " ") }
        return ["->", "{", "where ", "async", "throws"].contains { next.starts(with: $0.utf8) }
    }
}
