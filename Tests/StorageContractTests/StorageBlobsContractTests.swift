import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// The contract of every storage driver for files: their owners and their bytes.
@Suite("Storage contract: files", .bounded)
struct StorageBlobsContractTests {
    private let content = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
    private var id: BlobID { BlobID(of: content) }

    @Test(arguments: StorageDriver.allCases)
    func `a stored file is read in parts to its end`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let files = storage.blobs
            #expect(try await files.read(id, from: 0, count: 10) == nil)
            try await files.keep(content, as: id, at: .at(0))

            #expect(try await files.read(id, from: 0, count: .max) == content)
            let part = try await files.read(id, from: 70_000, count: 65_536)
            #expect(part == Array(content[70_000..<135_536]))
            let end = try await files.read(id, from: 199_990, count: 65_536)
            #expect(end == Array(content[199_990...]))
            #expect(try await files.read(id, from: 200_000, count: 1) == [])
            #expect(try await files.read(id, from: .max, count: 1) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an empty file is a file`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let empty = BlobID(of: [])
            try await storage.blobs.keep([], as: empty, at: .at(0))
            #expect(try await storage.blobs.read(empty, from: 0, count: 9) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `files stored before a moment are listed in pages, in order of their ids`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let files = storage.blobs
            let old = (0..<40).map(BlobID.sample)
            for (number, id) in old.enumerated() {
                try await files.keep(Array("\(number)".utf8), as: id, at: .at(Int64(number % 10)))
            }
            try await files.keep(content, as: id, at: .at(10))

            let all = try await files.kept(before: .at(10), after: nil, limit: 100)
            #expect(all == old.sorted())
            var paged: [BlobID] = []
            while true {
                let page = try await files.kept(before: .at(10), after: paged.last, limit: 7)
                paged += page
                guard page.count == 7 else { break }
            }
            #expect(paged == all)
            #expect(try await files.kept(before: .at(5), after: nil, limit: 100).count == 20)
            #expect(try await files.kept(before: .at(9), after: nil, limit: 0) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a file is removed once, and not if it was stored again`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let files = storage.blobs
            try await files.keep(content, as: id, at: .at(0))
            try await files.keep(content, as: id, at: .at(20))
            // A clock that was set back does not make the file older.
            try await files.keep(content, as: id, at: .at(1))

            #expect(try await files.remove(id, keptBefore: .at(20)) == false)
            #expect(try await files.read(id, from: 0, count: 1) == [0])
            #expect(try await files.remove(id, keptBefore: .at(21)))
            #expect(try await files.remove(id, keptBefore: .at(21)) == false)
            #expect(try await files.read(id, from: 0, count: 1) == nil)
            try await files.keep(content, as: id, at: .at(22))
            #expect(try await files.read(id, from: 0, count: 1) == [0])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `concurrent stores and removals leave complete files or none`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let files = storage.blobs
            try await withThrowingTaskGroup { group in
                for round in 0..<40 {
                    group.addTask { [content, id] in
                        try await files.keep(content, as: id, at: .at(Int64(round)))
                    }
                    group.addTask { [id] in
                        try await files.remove(id, keptBefore: .at(Int64(round)))
                    }
                    group.addTask { [content, id] in
                        let read = try await files.read(id, from: 0, count: .max)
                        #expect(read == nil || read == content)
                    }
                }
                try await group.waitForAll()
            }
            try await files.keep(content, as: id, at: .at(40))
            #expect(try await files.read(id, from: 0, count: .max) == content)
        }
    }

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
