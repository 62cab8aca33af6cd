import Foundation
import SanguineModel

/// A change of the user's account: a merge patch (RFC 7396) with only the changed members.
///
/// Changes of different members by different devices are all kept. While changes wait, a later one
/// replaces those whose members it sets too.
struct AccountUpdate: RemoteMutation, Superseding {
    static let name = "$account.update"
    static let path = "/v1/account"

    let patch: JSONValue
    /// Whether the client follows the device's settings with it; `nil` for a change by the app.
    var followsDevice: Bool?

    var lane: String { "$account" }

    func effects(on view: inout MutationEffects) {
        view.update(.account) { account in
            var state = AccountState(account)
            state.apply(patch)
            account.timeZone = state.timeZone
            account.language = state.language
            account.displayName = state.displayName
            account.settings = state.settings.json
        }
    }

    func send(_ request: MutationContext) async throws {
        let response = try await request.serverResponse(
            AccountUpdate.path,
            method: "PATCH",
            json: Data(patch.encoded)
        )
        let account = try WireCoding.decode(Account.self, from: response)
        request.appliedToAccount(response)
        request.settle(.account, account)
    }

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        guard let earlier = earlier as? AccountUpdate, patch.covers(earlier.patch) else {
            return nil
        }
        return .replaces
    }
}
