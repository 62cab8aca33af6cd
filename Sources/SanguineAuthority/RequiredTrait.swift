#if !TestKit
#error(
    """
    SanguineAuthority and SanguineTesting need the trait 'TestKit' of the package 'sanguine', or \
    'Server', which includes it: .package(url: "…/sanguine", from: "…", traits: ["TestKit"])
    """
)
#endif
