import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

/// The contract of every storage driver for documents, and for the state of an account.
@Suite("Storage contract: documents", .bounded)
struct StorageDocumentsContractTests {
    private let owner = Identifier.numbered(1)

    private func document(
        _ id: String,
        _ kind: DocumentKind = .login,
        of account: Identifier? = nil,
        until moment: Timestamp? = nil
    ) -> DocumentRow {
        DocumentRow(
            kind: kind,
            id: id,
            account: account,
            expiresAt: moment,
            body: Array("{\"id\":1}".utf8)
        )
    }

    private func store(_ rows: [DocumentRow], in storage: any Storage) async throws {
        let command = Command(keys: []) { _ in
            Decision((), changes: rows.map { .put(.document($0)) })
        }
        try await storage.perform(command).get()
    }

    @Test(arguments: StorageDriver.allCases)
    func `a document is found by its kind and id, replaced, and removed`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            var row = document("a", of: owner, until: .at(9))
            try await store([row, document("a", .mail)], in: storage)
            #expect(try await storage.row(.document(.login, id: "a")) == .document(row))
            let other = try await storage.row(.document(.mail, id: "a"))
            #expect(other?.key == .document(.mail, id: "a"))
            #expect(try await storage.row(.document(.login, id: "A")) == nil)

            (row.body, row.account, row.expiresAt) = ([0x31], nil, nil)
            try await store([row], in: storage)
            #expect(try await storage.row(.document(.login, id: "a")) == .document(row))

            let removal = Command(keys: []) { _ in
                Decision((), changes: [.delete(.document(.login, id: "a"))])
            }
            try await storage.perform(removal).get()
            #expect(try await storage.row(.document(.login, id: "a")) == nil)
            #expect(try await storage.row(.document(.mail, id: "a")) != nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `documents are listed by kind and account, in the order of their bytes`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let other = Identifier.numbered(2)
            let ids = ["b", "a", "Z", "aa"]
            try await store(ids.map { document($0, of: owner) }, in: storage)
            try await store([document("c", of: other), document("x", .mail)], in: storage)

            let all = try await storage.documents(DocumentQuery(.login, limit: 100))
            #expect(all.map(\.id) == ["Z", "a", "aa", "b", "c"])
            let own = DocumentQuery(.login, of: owner, after: "a", limit: 2)
            #expect(try await storage.documents(own).map(\.id) == ["aa", "b"])
            #expect(try await storage.documents(DocumentQuery(.event, limit: 9)) == [])
            #expect(try await storage.documents(DocumentQuery(.login, limit: 0)) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a sweep removes the expired documents, oldest first`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await store([document("kept")], in: storage)
            for second in 1...4 {
                try await store([document("\(second)", until: .at(Int64(second)))], in: storage)
            }
            let never = Timestamp(millisecondsSince1970: .min)
            let horizon = SweepHorizon(
                answers: never,
                sessions: never,
                holds: never,
                documents: .at(4)
            )
            #expect(try await storage.sweep(horizon, limit: 2) == 2)
            let left = try await storage.documents(DocumentQuery(.login, limit: 9))
            #expect(left.map(\.id) == ["3", "4", "kept"])
            #expect(try await storage.sweep(horizon, limit: 2) == 1)
            #expect(try await storage.sweep(horizon, limit: 2) == 0)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an account keeps its state and the end of its plan`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            for state in [AccountRow.State.active, .merged(into: .numbered(7)), .deleted] {
                var profile = Account(
                    id: owner,
                    kind: .guest,
                    timeZone: "UTC",
                    language: "en",
                    createdAt: .at(0)
                )
                profile.plan = .premium
                let row = AccountRow(profile: profile, seq: 1, state: state, planExpiresAt: .at(5))
                let command = Command(keys: []) { _ in
                    Decision((), changes: [.put(.account(row))])
                }
                try await storage.perform(command).get()
                #expect(try await storage.row(.account(owner)) == .account(row))
            }
        }
    }
}
