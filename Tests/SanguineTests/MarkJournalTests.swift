import Foundation
import SanguineTesting
import Testing

@testable import Sanguine

@Suite("Invalidation journal")
struct MarkJournalTests {
    private let folder = TemporaryFolder()
    private let journal: MarkJournal

    init() throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        journal = MarkJournal(folder: folder.url)
    }

    private var file: URL { folder.url.appending(path: MarkJournal.name) }

    private var next: [InvalidationMarks.Scope] { MarkJournal(folder: folder.url).read() }

    @Test func `every kind of mark is read back`() throws {
        let scopes: [InvalidationMarks.Scope] = [
            .key("profile/a b\n\"c\""), .prefix("feed"), .tag("social"), .dependency("birthData"),
            .everything,
        ]
        for (number, scope) in scopes.enumerated() {
            try journal.append(scope, number: UInt64(number + 1))
        }
        #expect(next == scopes)
    }

    @Test func `marks are removed from the journal once the store contains them`() throws {
        try journal.append(.key("a"), number: 1)
        journal.clear(upTo: 1)
        #expect(next.isEmpty)
    }

    @Test func `marks newer than the store's are kept`() throws {
        try journal.append(.key("a"), number: 1)
        try journal.append(.key("b"), number: 2)
        journal.clear(upTo: 1)
        #expect(next == [.key("a"), .key("b")])
    }

    @Test func `a truncated line counts as everything`() throws {
        try journal.append(.key("a"), number: 1)
        let data = try Data(contentsOf: file)
        try data.dropLast(4).write(to: file)
        #expect(next == [.everything])
    }

    @Test func `beyond the limit one mark stands for everything`() throws {
        for number in 1...UInt64(ClientLimits.invalidationMarks + 1) {
            try journal.append(.key("\(number)"), number: number)
        }
        #expect(next == [.everything])
    }

    @Test func `after a sign-out the journal contains no names`() throws {
        try journal.append(.key("profile/ada"), number: 1)
        journal.anonymize()
        #expect(next == [.everything])
    }

    @Test(arguments: [false, true])
    func `values that were never stored are not marked`(isStored: Bool) throws {
        let wall = ManualWallClock()
        let ada = ValueQuery<Profile>.profile("ada")
        let first = try TestClient(network: .profiles(), wall: wall, folder: folder)
        let marked = first.client.queries.entries.user
        if isStored { first.client.set(Profile(name: "Ada"), for: ada) }
        #expect((marked.writer.markStale(.key(ada.key.text)) != nil) == isStored)
        first.client.close()
        // Values stored by an earlier process are marked.
        let second = try TestClient(network: .profiles(), wall: wall, folder: folder)
        let left = second.client.queries.entries.user
        #expect((left.writer.markStale(.everything) != nil) == isStored)
        second.client.close()
    }

    @Test func `the journal is readable only by its owner`() throws {
        try journal.append(.key("a"), number: 1)
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions]
        #expect(mode as? Int == 0o600)
    }
}
