import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Erasing local data removes all data of every user and of the device.
@Suite("Erased data", .bounded)
struct EraseTests {
    private let people = PeopleBackend()
    private var device: TestDevice { people.device }

    /// Returns a client with data of Ada, who has left, of Bob, who is signed in, and of the
    /// device.
    private func usedClient() async throws -> SanguineClient {
        let client = try device.launch()
        device.connectivity.disconnect()
        try people.signIn("ada", to: client)
        try client.perform(Say(text: "ada-deed"))
        await people.signOut(of: client)
        try people.signIn("bob", to: client)
        _ = try await client.value(of: .said)
        client.set(Words(words: ["a-word-of-the-device"]), for: .news)
        try client.perform(Say(text: "bob-deed"))
        client.queries.entries.flush()
        #expect(try !device.files(with: "a-word-of-the-device").isEmpty)
        return client
    }

    @Test func `no erased data of a user or of the device is visible`() async throws {
        let client = try await usedClient()
        try await client.eraseLocalData()
        #expect(client.userID == nil)
        #expect(client.cached(.said) == nil && client.cached(.news) == nil)
        #expect(client.outbox.pending.isEmpty && client.outbox.ofOthers == 0)
        for person in ["ada", "bob"] {
            try people.signIn(person, to: client)
            #expect(client.outbox.pending.isEmpty)
        }
        device.connectivity.connect()
        try await client.synchronize()
        #expect(people.deeds.isEmpty)
    }

    @Test func `no byte of erased data is on disk, at once or after a restart`() async throws {
        let client = try await usedClient()
        client.invalidate(.said)
        try await client.eraseLocalData()
        for text in ["ada", "bob", "a-word-of-the-device", "said"] {
            #expect(try device.files(with: text).isEmpty, "\(text)")
        }
        try device.kill()
        let next = try device.launch()
        #expect(next.userID == nil && next.cached(.said) == nil && next.cached(.news) == nil)
        #expect(next.outbox.ofOthers == 0)
    }

    @Test func `the client and the next process continue like new ones`() async throws {
        let client = try await usedClient()
        try await client.eraseLocalData()
        try people.signIn("cyd", to: client)
        _ = try await client.value(of: .said)
        client.set(Words(words: ["new"]), for: .news)
        try client.perform(Say(text: "cyd-deed"))
        client.queries.entries.flush()
        try device.kill()
        let next = try device.launch()
        #expect(next.userID == "cyd")
        #expect(next.cached(.news)?.words == ["new"])
        #expect(next.cached(.said)?.words == ["cyd-hello", "cyd-deed"])
    }

    @Test func `a late answer for the device is dropped`() async throws {
        let client = try await usedClient()
        people.network.hold()
        let reader = Task { try await client.refresh(.news) }
        try await people.network.waitForHeld(1)
        try await client.eraseLocalData()
        people.network.release()
        await #expect(throws: SanguineError.userChanged) { _ = try await reader.finished() }
        client.queries.entries.flush()
        #expect(client.cached(.news) == nil)
    }

    @Test func `erasing starts the device's lists over`() async throws {
        let client = try await usedClient()
        let policy = Policy.forever.audience(.device).retry(.never)
        let list = ListQuery<Track>("device-tracks", path: "tracks", policy: policy)
        try await client.value(of: list)
        #expect(client.snapshot(of: list).items.map(\.id) == [1])
        try await client.eraseLocalData()
        #expect(client.snapshot(of: list).items.isEmpty)
        people.token = "bob"
        try await client.value(of: list)
        #expect(client.snapshot(of: list).items.map(\.id) == [1])
    }

    @Test func `the app's own files in the folder are kept`() async throws {
        let client = try await usedClient()
        let folder = try #require(client.configuration.folder)
        let file = folder.appending(path: "settings.json")
        try Data("{}".utf8).write(to: file)
        try await client.eraseLocalData()
        #expect(FileManager.default.fileExists(atPath: file.path))
    }

    @Test func `a client in memory is erased too`() async throws {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.transport = ScriptedTransport()
        let client = try SanguineClient(configuration)
        client.set(Words(words: ["a"]), for: .news)
        client.set(Words(words: ["b"]), for: .said)
        try await client.eraseLocalData()
        #expect(client.cached(.news) == nil && client.cached(.said) == nil)
    }

    @Test func `erasing an unused client changes nothing, and the next launch works`()
        async throws
    {
        try await device.launch().eraseLocalData()
        try people.signIn("ada", to: try #require(device.client))
        try device.client?.perform(Say(text: "ada-deed"))
        try device.kill()
        #expect(try device.launch().userID == "ada")
    }

    @Test func `files that could not be removed are reported, and removed by a retry`()
        async throws
    {
        let client = try await usedClient()
        let folder = try #require(client.configuration.folder)
        // The file that names the current user cannot be replaced.
        let present = folder.appending(path: "present")
        try FileManager.default.removeItem(at: present)
        let obstacle = present.appending(path: "obstacle")
        try FileManager.default.createDirectory(at: obstacle, withIntermediateDirectories: true)
        let error = await #expect(throws: SanguineError.self) { try await client.eraseLocalData() }
        #expect(error?.code == "store")
        #expect(error?.description.contains("Call eraseLocalData() again.") == true)
        #expect(error?.description.contains("nothing was changed") == false)
        #expect(client.cached(.said) == nil)
        #expect(try device.files(with: "ada").isEmpty)
        try FileManager.default.removeItem(at: present)
        try await client.eraseLocalData()
    }

    @Test func `a closed client erases nothing`() async throws {
        let client = try device.launch()
        client.close()
        await #expect(throws: SanguineError.closed) { try await client.eraseLocalData() }
    }

    @Test func `with a Sanguine server, the session and the device identity are erased`()
        async throws
    {
        let authority = InMemoryAuthority(schema: .counters)
        let device = TestDevice(network: authority) { $0.schema = .counters }
        let client = try device.launch()
        _ = try await client.value(of: .account)
        let account = try #require(client.accountId)
        let identity = try client.session.deviceId()
        try await client.eraseLocalData()
        #expect(client.accountId == nil)
        #expect(try device.files(with: identity).isEmpty)
        #expect(try device.files(with: account.description).isEmpty)

        _ = try await client.value(of: .account)
        #expect(client.accountId != nil && client.accountId != account)
        #expect(try client.session.deviceId() != identity)
    }
}
