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
        }
    }
}
