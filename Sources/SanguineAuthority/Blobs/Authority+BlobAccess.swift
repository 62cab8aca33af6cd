import SanguineModel

// A file is readable by its owners, and by every account that may read a record which names it.
//
// The index of the member that names the file is kept in the commit of the record, so a check is
// one look-up for each declared member, and a deleted record ends the access at once.
extension Authority {
    /// Returns a row of a file that the account may read.
    ///
    /// - Throws: `not_found` if there is no such file, the account may not read it, or all of its
    ///   owners have deleted it; `overloaded` while an index that could tell is being built.
    func readableBlob(
        _ id: BlobID,
        by account: Identifier
    ) async throws(Problem) -> BlobRow {
        if let own = try await blobs([id], of: account).first { return own }
        return try await blob(id, namedIn: settings.schema.listsOfBlobs(readableBy: account))
    }

    /// Returns a row of a file that a record names publicly.
    ///
    /// - Throws: see ``readableBlob(_:by:)``.
    func publicBlob(_ id: BlobID) async throws(Problem) -> BlobRow {
        try await blob(id, namedIn: settings.schema.listsOfPublicBlobs)
    }

    /// Returns a row of a file that has an owner.
    ///
    /// - Throws: `not_found`.
    func anyBlob(_ id: BlobID) async throws(Problem) -> BlobRow {
        let rows = try await read { storage throws(StorageError) in
            try await storage.files(FilesQuery(of: id, limit: 1))
        }
        guard let row = rows.first else { throw .noBlob }
        return row
    }

    private func blob(
        _ id: BlobID,
        namedIn lists: [IndexList]
    ) async throws(Problem) -> BlobRow {
        for list in lists where try await isNamed(id, in: list) { return try await anyBlob(id) }
        for list in lists {
            let name = IndexName(collection: list.collection, field: list.field)
            guard !incompleteIndexes.all.contains(name) else { throw .incomplete(name) }
        }
        throw .noBlob
    }

    private func isNamed(_ id: BlobID, in list: IndexList) async throws(Problem) -> Bool {
        var query = RecordQuery(
            of: list.collection,
            in: list.scope,
            where: [list.field: IndexKey(of: id)],
            limit: 1
        )
        let collection = settings.schema.collection(list.collection)
        query.hasSharedNames = collection?.access == .readers
        let asked = query
        let found = try await read { storage throws(StorageError) in
            try await storage.records(asked)
        }
        return !found.records.isEmpty
    }
}

extension RecordSchema {
    /// The lists of the records that name files and that an account may read.
    func listsOfBlobs(readableBy account: Identifier) -> [IndexList] {
        lists { collection, field in
            let list = StoredIndex.blobs(field.name)
            return IndexList(
                collection.name,
                in: collection.listScope(of: account),
                by: collection.access == .readers ? StoredIndex.readable(list).name : list.name
            )
        }
    }

    /// The lists of an account's own records that name files.
    func listsOfBlobs(ownedBy account: Identifier) -> [IndexList] {
        lists { collection, field in
            IndexList(collection.name, in: account, by: StoredIndex.blobs(field.name).name)
        }
    }

    /// The lists of the records that name files publicly.
    var listsOfPublicBlobs: [IndexList] {
        lists { collection, field in
            guard field.isPublic else { return nil }
            return IndexList(collection.name, in: nil, by: StoredIndex.blobs(field.name).name)
        }
    }

    private func lists(
        _ list: (RecordCollection, BlobField) -> IndexList?
    ) -> [IndexList] {
        allCollections.flatMap { collection in
            collection.blobs.compactMap { list(collection, $0) }
        }
    }
}

extension Problem {
    /// The error for a file that does not exist, or that the account may not read.
    static var noBlob: Problem {
        Problem(.notFound, "Use the id of a file that this account may read.")
    }
}
