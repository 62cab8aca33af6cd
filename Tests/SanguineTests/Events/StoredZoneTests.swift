import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("The user's time zone", .bounded)
struct StoredZoneTests {
    private func client(
        _ folder: TemporaryFolder,
        authorizer: TestAuthorizer = TestAuthorizer(),
        zone: String = "Europe/Berlin"
    ) throws -> SanguineClient {
        try TestClient(folder: folder, authorizer: authorizer) { $0.timeZone = zone }.client
    }

    @Test func `the zone is the configuration's until the app sets one`() throws {
        let client = try client(TemporaryFolder())

        #expect(client.timeZone == "Europe/Berlin")
    }

    @Test func `a zone that was set survives a restart`() throws {
        let folder = TemporaryFolder()
        let first = try client(folder)
        try first.setTimeZone("Asia/Tokyo")
        first.close()

        #expect(try client(folder, zone: "America/New_York").timeZone == "Asia/Tokyo")
    }

    @Test(arguments: ["", "Mars/Olympus", "CEST", "GMT+5", "Europe/Berlin\u{0}"])
    func `an unknown zone name is refused and changes nothing`(name: String) throws {
        let client = try client(TemporaryFolder())
        let error = #expect(throws: SanguineError.self) { try client.setTimeZone(name) }

        #expect(error?.code == "invalid_content")
        #expect(client.timeZone == "Europe/Berlin")
    }

    @Test func `the zone is removed when its user signs out`() async throws {
        try await ClientFixture.withFolder { folder in
            let fixture = ClientFixture()
            let client = try fixture.client(folder: folder) { $0.timeZone = "Europe/Berlin" }
            _ = try await client.value(of: .balance)
            try client.setTimeZone("Asia/Tokyo")
            await client.signOut()
            #expect(client.timeZone == "Europe/Berlin")
            client.close()

            let next = try fixture.client(folder: folder) { $0.timeZone = "Europe/Berlin" }
            #expect(next.timeZone == "Europe/Berlin")
        }
    }

    @Test func `setting a zone for a user who has left is refused`() throws {
        let client = try client(TemporaryFolder())
        let user = client.users.current
        client.users.switchUser(to: nil)

        #expect(throws: SanguineError.userChanged) { try user.zone.set("Asia/Tokyo") }
        #expect(client.timeZone == "Europe/Berlin")
    }

    @Test func `the next user has the configuration's zone`() throws {
        let client = try client(TemporaryFolder())
        try client.setTimeZone("Asia/Tokyo")
        client.users.switchUser(to: nil)

        #expect(client.queries.entries.zone.identifier == "Europe/Berlin")
    }

    @Test func `a stored zone that this system does not know is ignored`() throws {
        let folder = TemporaryFolder()
        let first = try client(folder)
        try first.users.current.store.setState(StoredZone.stateName, Data("Mars/Olympus".utf8))
        first.close()

        #expect(try client(folder).timeZone == "Europe/Berlin")
        #expect(try client(TemporaryFolder(), zone: "Mars/Olympus").timeZone == "GMT")
    }
}
