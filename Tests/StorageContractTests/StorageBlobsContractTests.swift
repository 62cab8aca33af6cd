import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// The contract of every storage driver for files: their owners, and the end of their store.
@Suite("Storage contract: files", .bounded)
struct StorageBlobsContractTests {
    private let content = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
    private var id: BlobID { BlobID(of: content) }

    @Test(arguments: StorageDriver.allCases)
    func `a file belongs to an account by its row, and is owned while any account has it`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let (ann, ben) = (Identifier.numbered(1), Identifier.numbered(2))
            let row = { (account: Identifier) in
                BlobRow(account: account, id: id, size: 5, type: "image/png", createdAt: .at(0))
            }
            try await storage.store(.put(.blob(row(ann))), .put(.blob(row(ben))))

            #expect(try await storage.row(.blob(ann, id)) == .blob(row(ann)))
            #expect(try await storage.row(.blob(ann, .sample(3))) == nil)
            #expect(try await storage.owned([id, .sample(3)]) == [id])
            try await storage.store(.delete(.blob(ann, id)))
            #expect(try await storage.row(.blob(ann, id)) == nil)
            #expect(try await storage.owned([id]) == [id])
            try await storage.store(.delete(.blob(ben, id)))
            #expect(try await storage.owned([id]) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the files of all accounts are listed in pages, and the owners of one content`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            var rows: [BlobRow] = []
            for number in 0..<30 {
                let row = BlobRow(
                    account: .numbered(UInt64(number % 4) + 1),
                    id: .sample(number / 3),
                    size: Int64(number),
                    type: "image/png",
                    createdAt: .at(Int64(number))
                )
                rows.append(row)
                try await storage.store(.put(.blob(row)))
            }
            let sorted = rows.sorted { $0.position < $1.position }
            #expect(try await storage.files(FilesQuery(limit: 100)) == sorted)
            var paged: [BlobRow] = []
            while true {
                let query = FilesQuery(after: paged.last?.position, limit: 7)
                let page = try await storage.files(query)
                paged += page
                guard page.count == 7 else { break }
            }
            #expect(paged == sorted)
            let owners = try await storage.files(FilesQuery(of: .sample(4), limit: 2))
            #expect(owners == Array(sorted.filter { $0.id == .sample(4) }.prefix(2)))
            #expect(owners.count == 2)
            #expect(try await storage.files(FilesQuery(of: .sample(99), limit: 2)) == [])
            #expect(try await storage.files(FilesQuery(limit: 0)) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a decision sees whether an account has a file`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let (ann, ben) = (Identifier.numbered(1), Identifier.numbered(2))
            let row = BlobRow(account: ann, id: id, size: 5, type: "image/png", createdAt: .at(0))
            try await storage.store(.put(.blob(row)))
            let file = id
            let command = Command(keys: []) { _, reader throws(Problem) in
                do {
                    return Decision([
                        try reader.hasBlob(ann, file), try reader.hasBlob(ben, file),
                        try reader.hasBlob(ann, .sample(1)),
                    ])
                } catch {
                    throw Problem(.internalFault, "\(error)")
                }
            }
            #expect(try await storage.perform(command).get() == [true, false, false])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a closed storage neither stores nor reads files`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            try await storage.blobs.keep(content, as: id, at: .at(0))
            await storage.close()
            await #expect(throws: StorageError.closed) {
                try await storage.blobs.keep(content, as: id, at: .at(1))
            }
            await #expect(throws: StorageError.closed) {
                _ = try await storage.blobs.read(id, from: 0, count: 1)
            }
            await #expect(throws: StorageError.closed) { _ = try await storage.owned([id]) }
            await #expect(throws: StorageError.closed) {
                _ = try await storage.files(FilesQuery(limit: 1))
            }
        }
    }
}
