import Sanguine

/// Signs users in and out; the app manages the token, and the client everything else.
struct Account {
    let client: SanguineClient
    let tokens: Tokens

    /// Waiting operations of this user are shown again and sent.
    func signIn(_ user: String, _ password: String) async throws {
        // Sign out first, so that no request of one user is sent with the token of another.
        if client.userID != nil { await signOut() }
        try client.signIn(as: try await tokens.signIn(user, password))
    }

    /// Removes all data from the device, except operations that wait for the user's return.
    func signOut() async {
        await tokens.signOut()
        await client.signOut()
    }
}
