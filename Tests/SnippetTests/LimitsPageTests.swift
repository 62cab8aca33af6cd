import Foundation
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import TestSupport
import Testing

@testable import Sanguine

/// `Documentation/Limits.md` contains exactly the limits in the code.
@Suite("Limits page", .bounded)
struct LimitsPageTests {
    private static let root = URL(filePath: #filePath).appending(path: "../../..").standardized

    /// The values in the page's tables, by name.
    private func page() throws -> [String: String] {
        let file = Self.root.appending(path: "Documentation/Limits.md")
        let rows = try String(contentsOf: file, encoding: .utf8).matches(
            of: #/(?m)^\| `(\w+(?:\.\w+)+)` \| ([^|]+) \| [^|]+ \|$/#
        )
        let values = rows.map { (String($0.1), String($0.2)) }
        return Dictionary(values) { first, second in "\(first) and also \(second)" }
    }

    @Test(arguments: LimitTexts.all)
    func `every value on the page matches the code`(name: String, value: String) throws {
        #expect(
            try page()[name] == value,
            "Write the row | `\(name)` | \(value) | in Documentation/Limits.md."
        )
    }

    @Test func `the page contains only names that are compared`() throws {
        #expect(try Set(page().keys) == Set(LimitTexts.all.map(\.0)))
    }

    @Test(arguments: [
        "SanguineModel/WireLimits", "Sanguine/ClientLimits", "Sanguine/Balance/BalanceLimits",
        "Sanguine/Events/EventLimits",
        "Sanguine/Images/ImageLimits",
        "Sanguine/Feed/FeedLimits", "SanguineServer/Live/LiveLimits",
        "Sanguine/Metrics/MetricsLimits",
        "Sanguine/Lists/PageLimits", "Sanguine/Range/RangeLimits", "Sanguine/Records/RecordLimits",
        "Sanguine/Threads/MessageLimits",
        "SanguineAuthority/AuthoritySettings", "SanguineSQLite/SQLiteStorageOptions",
        "SanguineTesting/TestingLimits",
    ])
    func `every declared limit is on the page`(path: String) throws {
        let file = Self.root.appending(path: "Sources/\(path).swift")
        let declarations = try String(contentsOf: file, encoding: .utf8).matches(
            of: #/(?m)^    (?:public )?(?:static let|var) (\w+)(?:: [^={\n]+)? =/#
        )
        let type = file.deletingPathExtension().lastPathComponent
        let names = declarations.map { "\(type).\($0.1)" }

        #expect(names.count > 5)
        #expect(try Set(names).subtracting(page().keys) == [])
    }
}
