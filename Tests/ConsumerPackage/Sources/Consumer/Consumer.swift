import Sanguine

/// Stands for an app.
@main
struct Consumer {
    static func main() {
        print("Linked.")
    }
}
