import Foundation
import Testing

/// Compares the map of the code and the list of decisions with the files.
@Suite("Architecture", .timeLimit(.minutes(15)))
struct ArchitectureTests {
    private static let sections = ["## Context", "## Decision", "## Consequences", "## Rejected"]
    private let files: [SourceFile]
    private let map: SourceFile

    init() throws {
        files = try Repository.files()
        map = try #require(files.first { $0.path == "ARCHITECTURE.md" })
    }

    @Test func `the map names the folders of the sources and no others`() {
        let there = Self.folders(of: files)
        let named = Self.folders(in: map.text)

        #expect(named.subtracting(there).sorted() == [], "These are not in Sources.")
        #expect(there.subtracting(named).sorted() == [], "Add these to ARCHITECTURE.md.")
    }

    @Test func `each type in the map is declared in the sources`() throws {
        let sources = files.filter { Scope.sources.contains($0.path) }
        let pattern = #"\b(?:struct|class|enum|actor|protocol|typealias)\s+([A-Z]\w*)"#
        var known = Set(sources.compactMap(\.target))
        for file in sources {
            known.formUnion(try file.matches(of: pattern, in: \.code).map(\.text))
        }
        let named = try map.matches(of: #"`([A-Z][A-Za-z0-9]*)(?:\.\w+)?`"#, in: \.text).map(\.text)
        try #require(named.count > 40)

        #expect(Set(named).subtracting(known).sorted() == [], "These are not in Sources.")
    }

    @Test(arguments: ["ARCHITECTURE.md", "README.md"])
    func `a page that is read first has at most 250 lines`(path: String) throws {
        let page = try #require(files.first { $0.path == path })

        #expect(page.text.count { $0 == "\n" } <= 250, "Move details of \(path) to a guide.")
    }

    @Test func `each decision has its sections and a line in the list`() throws {
        let folder = "Documentation/Decisions/"
        let list = try #require(files.first { $0.path == folder + "README.md" })
        let decisions = files.filter { $0.path.hasPrefix(folder) && $0.path != list.path }
        try #require(decisions.count > 50)

        for file in decisions {
            let lines = file.text.components(separatedBy: "\n")
            let headings = lines.filter { $0.hasPrefix("## ") }
            #expect(lines[0].hasPrefix("# "), "\(file.path) begins with its title.")
            #expect(headings == Self.sections, "\(file.path)")
            let name = file.path.dropFirst(folder.count)
            #expect(list.text.contains("](\(name))"), "Add \(name) to \(list.path).")
        }
        #expect(list.text.components(separatedBy: "\n- [").count - 1 == decisions.count)
    }

    @Test func `a missing folder in the map is found`() {
        let text = "| `Sources/A/` | `B/` and `C/` |\n"
        let files = [SourceFile("Sources/A/B/D.swift", "\n")]

        #expect(Self.folders(in: text).subtracting(Self.folders(of: files)) == ["Sources/A/C/"])
    }

    /// Returns the folders of the map's table: the first of a row, and those in it.
    private static func folders(in text: String) -> Set<String> {
        var found: Set<String> = []
        for line in text.components(separatedBy: "\n") where line.hasPrefix("| `Sources/") {
            let names = line.components(separatedBy: "`").filter { $0.hasSuffix("/") }
            guard !names.isEmpty else { continue }
            found.insert(names[0])
            found.formUnion(names.dropFirst().map { names[0] + $0 })
        }
        return found
    }

    /// Returns the folders of the files in `Sources`, up to the second level.
    private static func folders(of files: [SourceFile]) -> Set<String> {
        var found: Set<String> = []
        for file in files where file.path.hasPrefix("Sources/") {
            let parts = file.path.split(separator: "/").dropLast()
            guard parts.count >= 2 else { continue }
            found.insert(parts.prefix(2).joined(separator: "/") + "/")
            if parts.count > 2 { found.insert(parts.prefix(3).joined(separator: "/") + "/") }
        }
        return found
    }
}
