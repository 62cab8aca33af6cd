import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The effect of an app update on stored values.
@Suite("Stored values after an app update", .bounded)
struct AppVersionTests {
    private struct OldProfile: Codable, Sendable, Equatable {
        var name: String
    }

    private struct Profile: Codable, Sendable, Equatable {
        var name: String
        var avatar: String?
    }

    private static let policies: [Policy] = [.fresh(for: .hours(7 * 24)), .forever]

    private static func query<Value: Codable & Sendable>(
        _ policy: Policy
    ) -> ValueQuery<Value> {
        ValueQuery("profile", policy: policy.stored(.onDisk)) { try await $0.get("profile") }
    }

    private let folder = TemporaryFolder()
    private let network = ScriptedTransport { _ in .json(["name": "Ada", "avatar": "ada.png"]) }

    private func client(_ version: String?) throws -> SanguineClient {
        try TestClient(network: network, folder: folder) { $0.appVersion = version }.client
    }

    /// Stores a value with the first version.
    private func begin(_ policy: Policy, _ version: String? = "1") async throws {
        let client = try client(version)
        let old: ValueQuery<OldProfile> = Self.query(policy)
        _ = try await client.value(of: old)
        client.close()
        #expect(network.requests.count == 1)
    }

    @Test(arguments: policies)
    func `a stored value is shown and fetched once after an update`(policy: Policy) async throws {
        try await begin(policy)
        let query: ValueQuery<Profile> = Self.query(policy)
        var client = try client("2")
        #expect(client.cached(query) == Profile(name: "Ada"))
        let fetched = try await client.value(of: query)
        #expect(fetched == Profile(name: "Ada", avatar: "ada.png"))
        #expect(network.requests.count == 2)
        client.close()

        client = try self.client("2")
        #expect(try await client.value(of: query) == fetched)
        #expect(network.requests.count == 2)
        client.close()
    }

    @Test(arguments: ["1", nil])
    func `a stored value stays fresh in the same or an unknown version`(
        version: String?
    ) async throws {
        try await begin(.forever, version)
        let client = try client(version)
        defer { client.close() }
        let old: ValueQuery<OldProfile> = Self.query(.forever)
        _ = try await client.value(of: old)
        #expect(network.requests.count == 1)
    }

    @Test func `a value stored by an unknown version is fetched once`() async throws {
        try await begin(.forever, nil)
        for _ in 1...2 {
            let client = try client("1")
            let query: ValueQuery<Profile> = Self.query(.forever)
            #expect(try await client.value(of: query).avatar == "ada.png")
            client.close()
        }
        #expect(network.requests.count == 2)
    }

    @Test func `an update that was not recorded takes effect at the next start`() async throws {
        try await begin(.forever)
        // Nothing is read, and the process ends before anything is written.
        try client("2").users.current.cacheScope.writer.end()
        let client = try client("2")
        defer { client.close() }
        let query: ValueQuery<Profile> = Self.query(.forever)
        #expect(try await client.value(of: query).avatar == "ada.png")
    }
}
