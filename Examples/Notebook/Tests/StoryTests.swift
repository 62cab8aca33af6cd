import Foundation
import NotebookBackend
import RegexBuilder
import SanguineTesting
import TestSupport
import Testing

@testable import Notebook

/// The output of `swift run Notebook`, and the lines in the README.
@Suite("Notebook's story", .bounded)
struct StoryTests {
    @MainActor
    @Test func `the story ends with Ada's waiting notebook in her list`() async throws {
        try await World.with { world in
            let lines = try await printed(world)
            let scenes = lines.split { $0.hasPrefix("\n== ") }

            #expect(scenes[1].contains("   … 2 to be sent"))
            #expect(scenes[2].contains("     Engine: Weaves algebra."))
            let refusal = "   ! notebook.rename: A notebook 'Letters' already exists."
            #expect(scenes[4].contains(refusal))
            #expect(!lines.suffix(6).contains { $0.hasPrefix("   !") })
            #expect(lines.suffix(5).contains("   Poems (0)"))
            #expect(try world.server.change("bob") { $0.notebooks.isEmpty })
        }
    }

    @Test func `the README contains the lines of each feature`() throws {
        let folder = URL(filePath: #filePath).appending(path: "../..").standardized
        func read(_ path: String) throws -> [String] {
            try String(contentsOf: folder.appending(path: path), encoding: .utf8)
                .components(separatedBy: "\n")
        }
        let row = Regex {
            "| `"
            Capture { OneOrMore(.word) }
            "`, ["
            Capture { OneOrMore(.any, .reluctant) }
            ":"
            TryCapture {
                OneOrMore(.digit)
            } transform: {
                Int($0)
            }
            "-"
            TryCapture {
                OneOrMore(.digit)
            } transform: {
                Int($0)
            }
            "]("
            OneOrMore(.any, .reluctant)
            ") | "
            Capture { OneOrMore(.any, .reluctant) }
            " |"
        }
        let tests = try ["NotebookTests", "StoryTests"].map { try read("Tests/\($0).swift") }
            .joined().joined()
        var rows = 0
        for line in try read("README.md") {
            guard let found = try row.firstMatch(in: line) else { continue }
            let (_, name, path, first, last, test) = found.output
            rows += 1
            let text = try read(String(path))
            let said: Comment = "\(line)"
            try #require(first >= 1 && first < last && last <= text.count, said)
            #expect(text[first - 1].contains(name), said)
            #expect(["}", "    }"].contains(text[last - 1]), said)
            #expect((4...30).contains(last - first + 1), said)
            #expect(tests.contains("func `\(test)`()"), said)
        }
        #expect(rows == 12)
    }

    @MainActor
    private func printed(_ world: World) async throws -> [String] {
        var lines: [String] = []
        try await Story.play(world.url, world.server) { lines.append($0) }
        return lines
    }
}
