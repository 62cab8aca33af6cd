import Crypto
import Foundation
import SanguineModel

/// The rules for the secrets of devices.
///
/// The secret of a device is the only credential of a guest. It opens more than that only as far as
/// the answer to a request of the device may have been lost:
///
/// 1. It always opens the guest of the device, also after its sessions have ended.
/// 2. It opens a registered account if the device was given access in the account's current era.
///    A registration, a new password or address, and a sign-out everywhere begin an era, to which
///    only the device that sends the request belongs. So does a merge for the devices of the guest.
/// 3. The end of a session of a registered account, by a sign-out or from another device, ends the
///    access of its device. A session that expires, or is one too many, does not.
/// 4. Otherwise the device becomes a new guest, which receives no tokens: the device had them.
extension DeviceRow {
    /// Returns the account that the device's secret opens; `nil` for none.
    ///
    /// - Parameter loaded: The device's account, and those that lead from it to the one that has
    ///   its data.
    /// - Returns: The account.
    func opens(_ loaded: Loaded) -> AccountRow? {
        guard let own = loaded.account(account) else { return nil }
        switch own.state {
        case .active:
            return own.profile.kind == .guest || era == own.era ? own : nil
        case .merged:
            // The era is one of the alias, and says nothing about a registered account.
            guard let row = loaded.accounts(of: self).heirs.last.flatMap(loaded.account),
                row.state == .active,
                row.profile.kind == .guest
            else { return nil }
            return row
        case .deleted:
            return nil
        }
    }

    /// Returns the device with access to the account in its current era.
    func withAccess(to account: AccountRow) -> DeviceRow {
        var row = self
        row.account = account.id
        row.era = account.era
        return row
    }

    /// Whether the device's secret has that hash; compares in constant time.
    func hasSecret(hash: [UInt8]) -> Bool {
        guard hash.count == secretHash.count else { return false }
        return zip(hash, secretHash).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

extension SessionRow {
    /// Whether the session belongs to the account and has not ended, by itself or with its era.
    func isOpen(in account: AccountRow?) -> Bool {
        guard let account, account.id == self.account, account.state == .active else {
            return false
        }
        return endedAt == nil && era >= account.era
    }
}

/// The fact that a device, which is no longer known, had an account with a grant.
///
/// Otherwise a person could delete the account and receive the grant again. It does not name the
/// device: the id is a hash.
struct DeviceGrant: StoredDocument, Hashable {
    static let kind = DocumentKind.deviceGrant
    /// The time for which it is kept: 400 days.
    static let kept = Duration.seconds(400 * 86_400)

    /// See ``id(_:)``.
    var id: String
    var expiresAt: Timestamp

    init(device: String, at now: Timestamp) {
        id = Self.id(device)
        expiresAt = now + Self.kept
    }

    /// The hash of the device's id.
    static func id(_ device: String) -> String {
        Base64URL.encode(SHA256.hash(data: Data("device grant \(device)".utf8)))
    }

    var documentID: String { id }
    // Not the account's, so that its removal does not remove the fact.
    var documentAccount: Identifier? { nil }
    var documentExpiry: Timestamp? { expiresAt }
}
