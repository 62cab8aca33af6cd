import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A backup restored to another phone contains the app's files but not the identity, which is bound
/// to the device.
@Suite("A phone restored from a backup", .bounded)
struct RestoredPhoneTests {
    private let authority = InMemoryAuthority(schema: .counters)
    private let connectivity = ManualConnectivity()

    private func client(_ folder: TemporaryFolder) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration(server: URL(string: "http://test.invalid"))
        configuration.folder = folder.url
        configuration.transport = authority
        configuration.schema = .counters
        configuration.recordPolling = nil
        configuration.delay = ManualClock()
        configuration.connectivity = connectivity
        configuration.logger = .silent
        return try SanguineClient(configuration)
    }

    /// Stores the files of a phone that has something to send, and returns its account.
    private func backUp(to backup: TemporaryFolder) async throws -> Identifier? {
        let folder = TemporaryFolder()
        let phone = try client(folder)
        try await phone.synchronize()
        connectivity.disconnect()
        try phone.perform(Count(id: .of("a"), by: 3))
        let account = phone.users.current.session.account
        phone.close()
        let manager = FileManager.default
        try? manager.removeItem(at: backup.url)
        try manager.copyItem(at: folder.url, to: backup.url)
        try manager.removeItem(at: backup.url.appending(path: "device-identity.json"))
        connectivity.connect()
        return account
    }

    @Test func `a guest's queued operations go to the new phone's account`() async throws {
        let backup = TemporaryFolder()
        let account = try await backUp(to: backup)
        authority.endSessions()
        let phone = try client(backup)
        defer { phone.close() }
        // The first request reveals that the account is different.
        await #expect(throws: SanguineError.userChanged) { try await phone.synchronize() }
        try await phone.synchronize()

        #expect(phone.users.current.session.account != account)
        #expect(phone.outbox.pending.isEmpty && phone.outbox.ofOthers == 0)
        #expect(phone.record(Counter.self, .of("a"))?.count == 3)
    }

    @Test func `a registered user's operations go to no other account`() async throws {
        let backup = TemporaryFolder()
        let account = try await backUp(to: backup)
        // As the session of a registered user is stored.
        let store = try ClientStore(folder: backup.user, log: StoreLog(logger: .silent) {})
        let stored = try store.state(SessionKeeper.stateName) ?? Data()
        var session = try WireCoding.decode(StoredSession.self, from: stored)
        #expect(session.guestDevice != nil)
        session.guestDevice = nil
        try store.setState(SessionKeeper.stateName, try WireCoding.encode(session))
        store.close()
        authority.endSessions()
        let phone = try client(backup)
        defer { phone.close() }
        await #expect(throws: SanguineError.userChanged) { try await phone.synchronize() }
        try await phone.synchronize()

        #expect(phone.users.current.session.account != account)
        #expect(phone.outbox.ofOthers == 1)
        #expect(phone.record(Counter.self, .of("a")) == nil)
    }

    @Test(arguments: [
        "https://API.example.org", "https://api.example.org/", "HTTPS://api.example.org:443/v1",
    ])
    func `differently written addresses identify the same server`(text: String) throws {
        let url = try #require(URL(string: text))
        #expect(url.identityLabel == "https://api.example.org:443")
        let other = try #require(URL(string: "https://api.example.org:8443/"))
        #expect(other.identityLabel != url.identityLabel)
    }
}
