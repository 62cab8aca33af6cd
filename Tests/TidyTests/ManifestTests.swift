import Foundation
import Testing

/// Requirements on the manifest that SwiftPM does not check.
@Suite("Manifest", .timeLimit(.minutes(15)))
struct ManifestTests {
    @Test func `the table of imports has a row for exactly the manifest's targets`() throws {
        let manifest = try #require(try Repository.files().first { $0.path == "Package.swift" })
        let targets = Set(try manifest.declaredTargets())

        #expect(targets.count > 5)
        #expect(targets == Set(ImportTable.rows.keys))
    }

    @Test func `targets of every kind are found`() throws {
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
    /// Returns the names of the targets that a manifest declares or names.
    fileprivate func declaredTargets() throws -> [String] {
        let text = zip(code.utf8, literals.utf8).map { $0 == UInt8(ascii: " ") ? $1 : $0 }
        let withoutComments = SourceFile("Package.txt", String(decoding: text, as: UTF8.self))
        return try withoutComments.matches(
            of:
                #"\.(?:(?:t|executableT|testT)arget|systemLibrary)\(\s*name:\s*"(\w+)""#,
            in: \.text
        )
        .map(\.text)
    }
}
