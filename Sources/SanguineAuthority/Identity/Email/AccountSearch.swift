package import SanguineModel

/// The search for the account of an e-mail address, for support.
///
/// An account that signs in with the address is found before one that only shows it, because an
/// identity provider has verified it: two accounts can show the same address.
package struct AccountSearch: Hashable, Sendable {
    /// The address, in its canonical form if it has one.
    package let address: String

    /// Creates a search.
    package init(email: String) { address = EmailAddress(email)?.text ?? email }

    /// The key of the row that ``account(in:)`` needs.
    package var key: Key { Login.key(name) }

    /// Returns the account that signs in with the address; `nil` for none.
    package func account(in loaded: Loaded) -> Identifier? {
        (try? loaded.document(Login.self, name))?.account
    }

    private var name: String { Login.Name.email(address).text }
}
