import Foundation
import Testing

/// What must be true of the manifest, besides what SwiftPM checks.
@Suite("Manifest", .timeLimit(.minutes(15)))
struct ManifestTests {
    @Test func `every target has a row in the table of imports, and every row a target`() throws {
        let manifest = try #require(try Repository.files().first { $0.path == "Package.swift" })
        let targets = Set(try manifest.declaredTargets())

        #expect(targets.count > 5)
        #expect(targets == Set(ImportTable.rows.keys))
    }

    @Test func `targets of every kind are seen`() throws {
        let manifest = SourceFile(
            "Package.swift",
            """
            .target(name: "A"), .executableTarget(
                name: "B"
            ), .testTarget( name: "C"), .product(name: "D")  // .target(name: "E")
            """
        )

        #expect(try manifest.declaredTargets() == ["A", "B", "C"])
    }
}

extension SourceFile {
    /// The names of the targets that a manifest declares or names.
    fileprivate func declaredTargets() throws -> [String] {
        let text = zip(code.utf8, literals.utf8).map { $0 == UInt8(ascii: " ") ? $1 : $0 }
        let withoutComments = SourceFile("Package.txt", String(decoding: text, as: UTF8.self))
        return try withoutComments.matches(
            of:
                #"\.(?:t|executableT|testT)arget\(\s*name:\s*"(\w+)""#,
            in: \.text
        )
        .map(\.text)
    }
}
