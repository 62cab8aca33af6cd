import Foundation
import SanguineModel

/// A merge that was done; its repetitions receive the same result.
struct CompletedMerge: StoredDocument, Hashable {
    static let kind = DocumentKind.merge

    /// The guest.
    var guest: Identifier
    /// The account into which it was merged.
    var account: Identifier
    /// The guest's session that performed the merge.
    var session: Identifier
    /// The session of the account that the merge opened.
    var opened: Identifier
    /// The result.
    var merged: MergedGuest
    /// The number in the account's feed from which it contains all of the guest's data.
    var head: Int64
    /// The time of the merge.
    var at: Timestamp

    var documentID: String { Self.id(guest) }
    var documentAccount: Identifier? { account }

    static func id(_ guest: Identifier) -> String { guest.description }
}

/// A guest that its last device has left for an account, without data.
///
/// It leads from the account to the guest, so that a removal of the account finds its rows.
struct LeftGuest: StoredDocument, Hashable {
    static let kind = DocumentKind.merge
    static let prefix = "left "

    /// The guest.
    var guest: Identifier
    /// The account.
    var account: Identifier

    var documentID: String { Self.prefix + guest.description }
    var documentAccount: Identifier? { account }
}

extension CompletedMerge {
    /// The guest of a merge's document, or of one that a device has left; `nil` for other rows.
    static func guest(of row: Row) -> Identifier? {
        guard case .document(let row) = row, row.kind == kind else { return nil }
        let isLeft = row.id.hasPrefix(LeftGuest.prefix)
        return Identifier(isLeft ? String(row.id.dropFirst(LeftGuest.prefix.count)) : row.id)
    }
}

extension DocumentRow {
    /// The result of a merge for a guest's document.
    enum MergeFate {
        /// The account receives it.
        case moves
        /// It is removed: it would change the guest, which no longer exists.
        case ends
        /// It stays as it is: it reports the past, or the server works on it.
        case stays
    }

    var mergeFate: MergeFate {
        switch kind {
        case .verification, .moveCode, .quotaExhaustion, .upload: .ends
        case .event, .removal, .merge, .identityToken, .deviceGrant, .guestCount, .switches,
            .recordTally:
            .stays
        case .login, .mail, .purchase, .attempts, .attestation, .threadRemoval,
            .deletedThread:
            .moves
        }
    }

    /// Returns the document as one of the account.
    ///
    /// Each mention of the guest, in the id and the body, becomes one of the account. Ids of
    /// accounts are unique texts of one length, so no other text can contain one by accident.
    func rehomed(from guest: Identifier, to account: Identifier) -> DocumentRow {
        func renamed(_ text: String) -> String {
            text.replacingOccurrences(of: guest.description, with: account.description)
        }
        var row = self
        row.id = renamed(id)
        row.account = account
        row.body = Array(renamed(String(decoding: body, as: UTF8.self)).utf8)
        return row
    }

    /// Returns the document with what a merged guest's one of the same key adds.
    ///
    /// Of two terms of a plan, the longer one counts; a term without an end has no member that
    /// could tell so.
    func merged(with other: DocumentRow) -> DocumentRow {
        guard var own = try? PlanSources(self), let theirs = try? PlanSources(other) else {
            return filled(from: other)
        }
        own.merge(theirs)
        return own.row
    }

    /// Returns the document with the members of another one that it lacks, at any depth.
    private func filled(from other: DocumentRow) -> DocumentRow {
        guard let own = try? JSONParser.parse(body, limits: .tolerant).value,
            let theirs = try? JSONParser.parse(other.body, limits: .tolerant).value
        else { return self }
        var row = self
        row.body = ResponseEncoder.encode(own.filled(from: theirs))
        return row
    }
}

extension JSONValue {
    /// Returns the object with the members of another one that it lacks, at any depth.
    fileprivate func filled(from other: JSONValue) -> JSONValue {
        guard case .object(var own) = self, case .object(let theirs) = other else { return self }
        for (name, value) in theirs {
            own[name] = own[name].map { $0.filled(from: value) } ?? value
        }
        return .object(own)
    }
}
