import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Storage matrix", .bounded)
struct StorageMatrixTests {
    private let profile = QueryDeclaration(
        name: "profile",
        policy: .fresh(for: .minutes(5)).stored(.onDisk).timeout(.seconds(8))
            .tagged("people", "me").depends(on: "plan")
            .refetched(on: [.foreground, .networkBack]).polled(every: .seconds(90))
    )
    private let page = QueryDeclaration(name: "page", policy: .untilMidnight.audience(.device))

    @Test func `the table is aligned, sorted and complete`() {
        let matrix = StorageMatrix(declared: [profile, page], seen: [profile])

        let lines = matrix.description.split(separator: "\n")
        #expect(
            lines.map { $0.replacing(#/ {2,}/#, with: "|") } == [
                "query|fresh|kept|tier|audience|timeout|attempts|priority|again on|polled|tags|"
                    + "depends on|version|note",
                "page|until midnight|30 days|inMemory|device|30 s|3|normal|midnight|-|-|-|1",
                "profile|5 min|30 days|onDisk|user|8 s|3|normal|foreground, networkBack|90 s|"
                    + "people, me|plan|1",
            ]
        )
        let columns = lines.map { line in
            ["tier", "inMemory", "onDisk"].compactMap { line.firstRange(of: $0)?.lowerBound }
                .map { line.distance(from: line.startIndex, to: $0) }
        }
        #expect(Set(columns.map(\.first)).count == 1)
    }

    @Test func `an undeclared query in use is marked`() {
        let matrix = StorageMatrix(declared: [profile], seen: [page])

        #expect(matrix.rows.map(\.standing) == [.undeclared, .declared])
    }

    @Test func `a name with two policies is a conflict`() {
        var other = profile
        other.policy = .forever
        let matrix = StorageMatrix(declared: [profile], seen: [other])

        #expect(matrix.rows.map(\.standing) == [.conflict, .conflict])
        #expect(matrix.description.contains("conflict"))
    }

    @Test func `the matrix survives encoding as JSON`() throws {
        let matrix = StorageMatrix(declared: [profile, page])
        let data = try JSONEncoder().encode(matrix)

        #expect(try JSONDecoder().decode(StorageMatrix.self, from: data) == matrix)
    }

    @Test func `a client shows declared, built-in and used queries`() async throws {
        let test = try TestClient(network: .profiles()) { $0.queries = [page] }
        _ = try await test.client.value(of: .fleeting("ada"))
        _ = try await test.client.value(of: .fleeting("bob"))
        let rows = test.client.matrix().rows

        #expect(rows.map(\.name) == ["$account", "$balance", "$quotas", "fleeting", "page"])
        #expect(rows.map { $0.standing == .undeclared } == [false, false, false, true, false])
    }

    @Test func `the number of queries that a client records is limited`() {
        let registry = QueryRegistry(declared: [])
        for number in 0..<1_500 { registry.saw("query \(number)", .session) }
        for number in 1...10 { registry.saw("query 0", .fresh(for: .seconds(number))) }
        let matrix = registry.matrix()

        #expect(matrix.rows.count == 1_003)
        #expect(matrix.leftOut == 507)
        #expect(matrix.description.contains("507 more"))
    }
}
