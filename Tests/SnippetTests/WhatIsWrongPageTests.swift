import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The page `What-Is-Wrong.md` explains exactly the figures of the debug report.
@Suite("What is wrong", .bounded)
struct WhatIsWrongPageTests {
    private static let page = Result {
        try String(
            contentsOf: URL(filePath: #filePath)
                .appending(path: "../../../Sources/Sanguine/Sanguine.docc/What-Is-Wrong.md")
                .standardized,
            encoding: .utf8
        )
    }

    /// The figures in the page's tables, in their order.
    private func explained() throws -> [String] {
        try Self.page.get().matches(of: #/(?m)^\| `(\w+\.\w+)` \| [^|]+ \|$/#).map { String($0.1) }
    }

    /// The figures of a client's report, in their order.
    private func reported() throws -> [String] {
        let client = try SanguineClient(.inMemory(server: URL(string: "http://127.0.0.1:1")))
        defer { client.close() }
        let figures = try #require(
            client.debugReport().sections.first { $0.title == "figures" }
        )
        return figures.lines.compactMap { $0.split(separator: ":").first.map(String.init) }
    }

    @Test func `every figure of the report is explained once, and no other`() throws {
        let (explained, reported) = (try explained(), try reported())

        #expect(reported.count > 40)
        #expect(Set(explained).subtracting(reported) == [], "Remove these rows from the page.")
        #expect(Set(reported).subtracting(explained) == [], "Explain these in a table of the page.")
        #expect(explained.count == Set(explained).count)
    }

    @Test func `every figure that the text mentions exists`() throws {
        let page = try Self.page.get()
        let prefixes = Set(try reported().compactMap { $0.split(separator: ".").first })
        let mentioned = page.matches(of: #/`(([a-z]+)\.\w+)`/#)
            .filter { prefixes.contains($0.2) }.map { String($0.1) }

        #expect(Set(mentioned).subtracting(try reported()) == [])
    }

    @Test func `each symptom has a table and the next steps`() throws {
        let symptoms = try Self.page.get().components(separatedBy: "\n## ").dropFirst(2)

        #expect(symptoms.count == 9)
        for symptom in symptoms {
            let title = symptom.prefix { $0 != "\n" }
            #expect(symptom.contains("\n| figure | meaning |\n"), "\(title)")
            #expect(symptom.contains("\n- "), "\(title)")
        }
    }
}
