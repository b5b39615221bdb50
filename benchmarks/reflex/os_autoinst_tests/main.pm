use Mojo::Base -strict;
use autotest;
use distribution;
use testapi;

testapi::set_distribution(distribution->new);
autotest::loadtest('tests/react.pm');
1;
